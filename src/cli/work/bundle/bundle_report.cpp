#include "cli/work/bundle/bundle_report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/json.hpp"
#include "cli/report/table.hpp"

namespace attnjit::cli {
namespace {

using base::Json;

std::size_t count_records(const cache::Bundle& bundle) {
  return static_cast<std::size_t>(std::ranges::count_if(bundle.members(), [](const auto& member) {
    return member.name.kind == cache::MemberKind::kRecord;
  }));
}

}  // namespace

std::string bundle_text(const cache::Bundle& bundle) {
  const std::size_t records = count_records(bundle);
  return fmt::format("{}: {} kernels and {} tuning records, {}", bundle.path().string(),
                     bundle.members().size() - records, records,
                     human_bytes(static_cast<double>(bundle.bytes())));
}

Json bundles_json(const cache::BundlePath& bundles) {
  Json list = Json::array();
  for (const cache::Bundle& bundle : bundles.bundles()) {
    const std::size_t records = count_records(bundle);
    list.push_back({{"file", bundle.path().string()},
                    {"kernels", bundle.members().size() - records},
                    {"records", records},
                    {"bytes", bundle.bytes()}});
  }
  for (const auto& [path, reason] : bundles.refused()) {
    list.push_back({{"file", path.string()}, {"error", reason}});
  }
  return list;
}

}  // namespace attnjit::cli
