#include "cli/work/bundle/bundle_import.hpp"

#include <optional>
#include <variant>

#include "attnjit/error.hpp"

namespace attnjit::cli {
namespace {

using cache::BundleMember;
using cache::MemberKind;

std::string text_of(const BundleMember& member) {
  const bool kernel = member.name.kind == MemberKind::kKernel;
  return fmt::format("{} {} for {}", kernel ? "kernel" : "tuning record",
                     base::hex(member.name.digest), member.arch());
}

void import_kernel(const cache::Entry& entry, cache::KernelCache& cache, Imported& imported) {
  const bool present = cache.store().find(entry.key, entry.arch, entry.compiler_id).has_value();
  imported.add(present ? Imported::Fate::kStayed : Imported::Fate::kAdded,
               present ? std::nullopt : cache.publish(entry));
}

}  // namespace

std::vector<std::string> damaged_members(const cache::Bundle& bundle) {
  std::vector<std::string> damaged;
  for (const BundleMember& member : bundle.members()) {
    std::optional<std::string> reason;
    if (member.name.kind == MemberKind::kKernel) {
      const auto kernel = bundle.kernel(member);
      if (const auto* const why = std::get_if<std::string>(&kernel)) reason = *why;
    } else if (!bundle.record(member)) {
      reason = "its bytes do not match the checksum in the index";
    }
    if (reason) damaged.push_back(fmt::format("{}: {}", text_of(member), *reason));
  }
  return damaged;
}

Imported import_kernels(const cache::Bundle& bundle, Session& session) {
  Imported imported;
  for (const BundleMember& member : bundle.members()) {
    if (member.name.kind != MemberKind::kKernel) continue;
    const auto kernel = bundle.kernel(member);
    if (const auto* const entry = std::get_if<cache::Entry>(&kernel)) {
      import_kernel(*entry, session.engine().cache(), imported);
    } else {
      imported.reject(fmt::format("{}: {}", text_of(member), std::get<std::string>(kernel)));
    }
  }
  return imported;
}

Imported import_records(const cache::Bundle& bundle, Session& session) {
  Imported imported;
  tuner::RecordStore disk = session.records_on_disk();
  for (const BundleMember& member : bundle.members()) {
    if (member.name.kind != MemberKind::kRecord) continue;
    try {
      import_record(tuner::record_from_json(bundle.record(member).value_or("")), disk, imported);
    } catch (const Error& error) {
      imported.reject(fmt::format("{}: {}", text_of(member), error.what()));
    }
  }
  return imported;
}

}  // namespace attnjit::cli
