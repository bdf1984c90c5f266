#include "cli/report/bench_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/json.hpp"
#include "cli/report/html.hpp"

namespace attnjit::cli {
namespace {

using base::Json;

constexpr std::string_view kBenchBegin = R"(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>attnjit bench</title><style>
body { font: 14px/1.4 sans-serif; margin: 2em; color: #222; background: #fff }
table { border-collapse: collapse } td, th { padding: 1px 10px 1px 0; text-align: left }
td.ms { text-align: right } td.bar { width: 160px } td.bar div { height: 12px; background: #47a }
td.memory div { background: #2a5 } p { max-width: 50em }
</style></head><body>
<h1>attnjit bench</h1>
)";

constexpr std::string_view kWords =
    "<p>Tensor: products of kept pairs over the peak of dense ones at the clock of the row. "
    "Memory: "
    "bytes of the call, each counted once, over what a copy moves. Binds: the resource that the "
    "call keeps busy longest.</p>\n";

std::string bar(const char* kind, double share) {
  return fmt::format(
      "<td class=\"bar {}\"><div style=\"width:{:.1f}%\"></div></td><td class=\"ms\">{:.0f} %</td>",
      kind, std::clamp(100 * share, 0.0, 100.0), 100 * share);
}

std::string roofline_cells(const Json& row) {
  if (!row.contains("roofline")) return "<td></td><td></td><td></td><td></td><td></td><td></td>";
  const Json& line = row["roofline"];
  return bar("tensor", line["tensor_share"]) + bar("memory", line["memory_share"]) +
         fmt::format("<td>{}</td><td class=\"ms\">{:.0f} MHz</td>",
                     escaped(line["binds"].get<std::string>()), line["clock_mhz"].get<double>());
}

std::string peer_cells(const std::vector<PeerTime>& times, double ms) {
  std::string text;
  for (const PeerTime& each : times) {
    text += fmt::format("{}{} {:.4f} ({:.2f})", text.empty() ? "" : ", ", escaped(each.backend),
                        each.ms, each.ms / ms);
  }
  return fmt::format("<td>{}</td>", text);
}

}  // namespace

std::string bench_page(const Json& report, const PeerTimes& peers) {
  std::string page(kBenchBegin);
  page += fmt::format(
      "<p>{}, {}, library {} {}</p>\n", escaped(report["device"]["name"].get<std::string>()),
      escaped(report["date"].get<std::string>()), escaped(report["library"].get<std::string>()),
      escaped(report["git"].get<std::string>()));
  page += kWords;
  page +=
      "<table>\n<tr><th>problem</th><th>ms</th><th colspan=2>tensor</th><th colspan=2>memory</th>"
      "<th>binds</th><th>clock</th><th>peers: ms (over attnjit's)</th></tr>\n";
  for (const Json& row : report["rows"]) {
    if (!row.contains("ms")) continue;
    const std::string name = row["name"];
    const double ms = row["ms"];
    const auto times = peers.find(name);
    page +=
        fmt::format("<tr><td>{}</td><td class=\"ms\">{:.4f}</td>{}{}</tr>\n", escaped(name), ms,
                    roofline_cells(row),
                    peer_cells(times == peers.end() ? std::vector<PeerTime>() : times->second, ms));
  }
  return page + "</table>\n</body></html>\n";
}

}  // namespace attnjit::cli
