#include "cli/report/tune_table.hpp"

#include <fmt/format.h>

#include "base/fields_json.hpp"
#include "cli/report/table.hpp"
#include "cli/report/tile_cell.hpp"

namespace attnjit::cli {
namespace {

using base::Json;

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

template <class PlanKey>
std::vector<std::string> row(const TunedProblem& problem,
                             const tuner::BasicRecord<PlanKey>& record) {
  return {problem.name,
          main_tile(config_zero(record)),
          fmt::format("{:.1f}", record.default_us),
          tile_cell(record),
          fmt::format("{:.1f}", record.us),
          percent(record.gain()),
          percent(record.mad / record.us),
          record.partial ? problem.state + ", partial" : problem.state};
}

Json json_of(const TunedProblem& problem) {
  Json object = {{"name", problem.name}, {"state", problem.state}};
  if (problem.state == "same") object["as"] = problem.text;
  if (problem.state == "failed") object["error"] = problem.text;
  if (problem.record) {
    object["configuration_0"] =
        std::visit([](const auto& record) { return codegen::describe_tile(config_zero(record)); },
                   *problem.record);
    object["kept"] = !problem.why_not_kept;
    object["record"] = base::parse_json(tuner::to_json(*problem.record));
  }
  for (const CandidateTime& time : problem.times) {
    object["times"].push_back(base::to_json_value(time));
  }
  for (const tuner::Fault& fault : problem.faults) {
    object["faults"].push_back(base::to_json_value(fault));
  }
  return object;
}

}  // namespace

std::string tune_table(const std::vector<TunedProblem>& problems) {
  Table table({{"problem"},
               {"configuration 0"},
               {"us", true},
               {"winner"},
               {"us", true},
               {"gain", true},
               {"noise", true},
               {"from"}});
  for (const TunedProblem& problem : problems) {
    if (!problem.record) continue;
    std::visit([&](const auto& record) { table.add(row(problem, record)); }, *problem.record);
  }
  return table.text();
}

Json tune_json(const std::vector<TunedProblem>& problems) {
  Json list = Json::array();
  for (const TunedProblem& problem : problems) list.push_back(json_of(problem));
  return list;
}

std::string summary(const TunedProblem& problem) {
  if (problem.state == "same") return fmt::format("the record of {}", problem.text);
  if (!problem.record) return problem.state;
  return std::visit(
      [&](const auto& record) {
        return fmt::format("{:.1f} us, gain {} ({})", record.us, percent(record.gain()),
                           problem.state);
      },
      *problem.record);
}

}  // namespace attnjit::cli
