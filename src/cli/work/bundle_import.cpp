#include "cli/work/bundle_import.hpp"

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

void import_kernel(const cache::Entry& entry, const std::string& text, cache::Store& store,
                   ImportCounts& counts) {
  const auto is_there = [&] {
    return store.find(entry.key, entry.arch, entry.compiler_id).has_value();
  };
  if (is_there()) {
    ++counts.kept;
    return;
  }
  store.publish(entry);
  if (is_there()) {
    ++counts.added;
  } else {
    counts.failed.push_back(text);
  }
}

/// A store of records on the disk alone: neither bundles nor memory answer for it.
tuner::RecordStore disk_records(Session& session) {
  return tuner::RecordStore(session.environment().cache_directory, session.engine().log());
}

template <class PlanKey>
void import_record(const tuner::BasicRecord<PlanKey>& record, const std::string& text,
                   Session& session, ImportCounts& counts) {
  const auto present = disk_records(session).find_exact(record.key);
  if (present && &better(*present, record) == &*present) {
    ++counts.kept;
    return;
  }
  disk_records(session).publish(record);
  const auto now = disk_records(session).find_exact(record.key);
  if (now && to_json(*now) == to_json(record)) {
    ++counts.added;
  } else {
    counts.failed.push_back(text);
  }
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
      reason = "its bytes are not those that the index promises";
    }
    if (reason) damaged.push_back(fmt::format("{}: {}", text_of(member), *reason));
  }
  return damaged;
}

ImportCounts import_kernels(const cache::Bundle& bundle, Session& session) {
  ImportCounts counts;
  for (const BundleMember& member : bundle.members()) {
    if (member.name.kind != MemberKind::kKernel) continue;
    const auto kernel = bundle.kernel(member);
    if (const auto* const entry = std::get_if<cache::Entry>(&kernel)) {
      import_kernel(*entry, text_of(member), session.engine().cache().store(), counts);
    } else {
      counts.rejected.push_back(
          fmt::format("{}: {}", text_of(member), std::get<std::string>(kernel)));
    }
  }
  return counts;
}

ImportCounts import_records(const cache::Bundle& bundle, Session& session) {
  ImportCounts counts;
  for (const BundleMember& member : bundle.members()) {
    if (member.name.kind != MemberKind::kRecord) continue;
    try {
      const tuner::AnyRecord any = tuner::record_from_json(bundle.record(member).value_or(""));
      std::visit(
          [&](const auto& record) { import_record(record, text_of(member), session, counts); },
          any);
    } catch (const Error& error) {
      counts.rejected.push_back(fmt::format("{}: {}", text_of(member), error.what()));
    }
  }
  return counts;
}

}  // namespace attnjit::cli
