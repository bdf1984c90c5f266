#include "cli/report/head_table.hpp"

#include <fmt/format.h>

#include <set>

#include "cli/report/table.hpp"

namespace attnjit::cli {
namespace {

constexpr std::size_t kMostHeads = 32;
constexpr std::size_t kMostRuns = 12;

}  // namespace

std::string offsets_in_tile(const std::vector<std::int64_t>& rows, int tile) {
  std::set<std::int64_t> offsets;
  for (const std::int64_t row : rows) offsets.insert(row % tile);
  std::string text;
  std::size_t runs = 0;
  for (auto next = offsets.begin(); next != offsets.end();) {
    const std::int64_t first = *next;
    std::int64_t last = first;
    while (++next != offsets.end() && *next == last + 1) last = *next;
    if (++runs > kMostRuns) return text + ", ...";
    text += fmt::format("{}{}", text.empty() ? "" : ", ", first);
    if (last > first) text += fmt::format("-{}", last);
  }
  return text;
}

std::string head_table(const std::string& output, const reference::Report& report,
                       std::int64_t rows, int tile) {
  Table table({{output},
               {"right", true},
               {"wrong", true},
               {fmt::format("wrong rows modulo {}", tile), false}});
  for (std::size_t n = 0; n < report.wrong.size() && n < kMostHeads; ++n) {
    const auto& [batch, head, wrong] = report.wrong[n];
    const auto count = static_cast<std::int64_t>(wrong.size());
    table.add({fmt::format("batch {} head {}", batch, head), fmt::to_string(rows - count),
               fmt::to_string(count), offsets_in_tile(wrong, tile)});
  }
  if (report.wrong.size() > kMostHeads) {
    table.add({fmt::format("{} more heads", report.wrong.size() - kMostHeads), "", "", ""});
  }
  const std::int64_t right = report.planes - static_cast<std::int64_t>(report.wrong.size());
  table.add({fmt::format("{} other heads", right), "all", "0", ""});
  return table.text();
}

}  // namespace attnjit::cli
