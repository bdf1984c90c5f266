#include "cli/report/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>
#include <utility>

#include "base/printable.hpp"

namespace attnjit::cli {
namespace {

constexpr std::string_view kGap = "  ";
constexpr std::size_t kLeastFirst = 12;  // columns that the first one keeps in any case

std::string fit(const std::string& text, std::size_t width, bool right) {
  if (text.size() > width) return text.substr(0, width - 2) + "..";
  return right ? fmt::format("{:>{}}", text, width) : fmt::format("{:<{}}", text, width);
}

std::string without_trailing_spaces(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

}  // namespace

void Table::add(std::vector<std::string> cells) {
  for (std::string& cell : cells) cell = base::printable(cell);
  rows_.push_back(std::move(cells));
}

std::vector<std::size_t> Table::widths() const {
  std::vector<std::size_t> widths;
  for (const Column& column : columns_) widths.push_back(column.title.size());
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  const std::size_t others =
      std::accumulate(widths.begin() + 1, widths.end(), kGap.size() * (widths.size() - 1));
  const std::size_t room = kMaxWidth > others + kLeastFirst ? kMaxWidth - others : kLeastFirst;
  widths.front() = std::min(widths.front(), room);
  return widths;
}

std::string Table::text() const {
  const std::vector<std::size_t> width = widths();
  const auto line = [&](auto cell) {
    std::string text;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      text += fmt::format("{}{}", i == 0 ? "" : kGap, fit(cell(i), width[i], columns_[i].right));
    }
    return without_trailing_spaces(text);
  };
  std::string text = line([&](std::size_t i) { return columns_[i].title; }) + '\n';
  text += line([&](std::size_t i) { return std::string(width[i], '-'); });
  for (const auto& row : rows_) text += '\n' + line([&](std::size_t i) { return row[i]; });
  return text;
}

std::string human_bytes(double bytes) {
  static constexpr std::array<std::string_view, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.1f} {}", bytes, kUnits[unit]);
}

}  // namespace attnjit::cli
