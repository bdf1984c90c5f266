#include "cli/report/tune_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "cli/report/html.hpp"
#include "cli/report/tile_cell.hpp"
#include "cli/report/tune_table.hpp"

namespace attnjit::cli {
namespace {

constexpr std::string_view kTuneBegin = R"(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>attnjit tune</title><style>
body { font: 14px/1.4 sans-serif; margin: 2em; color: #222; background: #fff }
table { border-collapse: collapse } td, th { padding: 1px 10px 1px 0; text-align: left }
td.us { text-align: right } td.bar { width: 400px } td.bar div { height: 12px; background: #bbb }
tr.zero div { background: #47a } tr.winner div { background: #2a5 } tr.faulty { color: #b22 }
</style></head><body>
<h1>attnjit tune</h1>
)";

void add_fact(std::string& page, std::string_view what, std::string_view value) {
  page += fmt::format("<tr><th>{}</th><td>{}</td></tr>\n", what, escaped(value));
}

void add_head(std::string& page, const TunePageHead& head) {
  page += "<table>\n";
  add_fact(page, "device", head.device);
  add_fact(page, "driver", fmt::format("CUDA {}.{}", head.driver / 1000, head.driver % 1000 / 10));
  for (const std::string& gpu : head.before) add_fact(page, "before", gpu);
  for (const std::string& gpu : head.after) add_fact(page, "after", gpu);
  add_fact(page, "library", ATTNJIT_VERSION);
  add_fact(page, "date", head.date);
  page += "</table>\n";
}

// A row of a candidate; `most` is the time of a full bar.
void add_row(std::string& page, const CandidateTime& time, std::string_view role, double most) {
  page += fmt::format(
      "<tr class=\"{}\"><td>{}</td><td class=\"us\">{}</td><td class=\"bar\"><div "
      "style=\"width:{:.1f}%\"></div></td><td>{}</td></tr>\n",
      role == "configuration 0" ? "zero" : role, escaped(time.tile),
      time.us > 0 ? fmt::format("{:.1f}", time.us) : "-", most > 0 ? 100 * time.us / most : 0.0,
      role);
}

// Of a record of an earlier run two times are known.
std::vector<CandidateTime> times_of(const TunedProblem& problem) {
  if (!problem.times.empty() || !problem.record) return problem.times;
  return std::visit(
      [](const auto& record) {
        std::vector<CandidateTime> times = {
            {codegen::describe_tile(config_zero(record)), record.default_us}};
        if (record.verdict == "gain") {
          times.push_back({codegen::describe_tile(record.config), record.us});
        }
        return times;
      },
      *problem.record);
}

std::string winner_of(const TunedProblem& problem) {
  if (!problem.record) return "";
  return std::visit([](const auto& record) { return codegen::describe_tile(record.config); },
                    *problem.record);
}

void add_problem(std::string& page, const TunedProblem& problem) {
  page += fmt::format(
      "<h2>{}</h2>\n<p>{}</p>\n", escaped(problem.name),
      escaped(problem.state == "failed" ? "failed: " + problem.text : summary(problem)));
  const std::vector<CandidateTime> times = times_of(problem);
  const std::string winner = winner_of(problem);
  double most = 0;
  for (const CandidateTime& time : times) most = std::max(most, time.us);
  page += "<table>\n";
  for (std::size_t i = 0; i < times.size(); ++i) {
    const char* const role = times[i].tile == winner ? "winner" : i == 0 ? "configuration 0" : "";
    add_row(page, times[i], role, most);
  }
  for (const tuner::Fault& fault : problem.faults) {
    page += fmt::format("<tr class=\"faulty\"><td>{}</td><td colspan=\"3\">faulty: {}</td></tr>\n",
                        escaped(fault.config), escaped(fault.why));
  }
  page += "</table>\n";
  if (problem.rejected + problem.known_faulty > 0) {
    page += fmt::format("<p>{} more were rejected, {} were known to be faulty.</p>\n",
                        problem.rejected, problem.known_faulty);
  }
}

}  // namespace

std::string tune_page(const TunePageHead& head, const std::vector<TunedProblem>& problems) {
  std::string page(kTuneBegin);
  add_head(page, head);
  for (const TunedProblem& problem : problems) add_problem(page, problem);
  page += "</body></html>\n";
  return page;
}

}  // namespace attnjit::cli
