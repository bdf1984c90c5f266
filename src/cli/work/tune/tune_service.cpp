#include "cli/work/tune/tune_service.hpp"

#include <exception>
#include <string>

#include "base/child_process.hpp"
#include "base/fields_json.hpp"
#include "cli/input/manifest.hpp"
#include "cli/work/tune/tune_messages.hpp"
#include "cuda/device.hpp"
#include "runtime/tune/problem_tuner.hpp"

namespace attnjit::cli {
namespace {

void say(std::ostream& out, const TuneMessage& message) {
  out << to_line(message) << '\n';
  out.flush();
}

template <class Pass>
runtime::TuneWatch<typename Pass::Tunables> watch(std::ostream& out) {
  using Tunables = typename Pass::Tunables;
  return {[&out](const Tunables& config) { say(out, TuneBegins{base::to_json_value(config)}); },
          [&out](const std::string& why) { say(out, TuneLost{why}); }};
}

template <class Pass>
std::string why_inconclusive(const runtime::TuneReport<Pass>& report) {
  if (!report.note.empty()) return report.note;
  return "the device changed speed while it was measured, twice; nothing is kept; tune on an idle "
         "device";
}

template <class Pass>
TuneAnswer answer_of(const runtime::TuneReport<Pass>& report) {
  TuneAnswer answer;
  if (report.result.conclusive()) {
    answer.record = report.record;
    answer.why_not_kept = report.why_not_kept;
  } else {
    answer.note = why_inconclusive(report);
  }
  const std::vector<double>& medians = report.result.medians;
  for (std::size_t i = 0; i < medians.size(); ++i) {
    answer.times.push_back({codegen::describe_tile(report.entrants[i]), medians[i]});
  }
  answer.rejected = report.rejected;
  answer.faulty = report.faulty;
  return answer;
}

template <class Pass>
TuneAnswer tune(std::ostream& out, runtime::Engine& engine, const cuda::Driver& driver,
                const typename Pass::Problem& problem) {
  return answer_of(runtime::ProblemTuner<Pass>(engine, watch<Pass>(out)).tune(driver, problem));
}

TuneAnswer answer(const TuneRequest& request, std::ostream& out, runtime::Engine& engine,
                  const cuda::Driver& driver) {
  for (const std::string& id : request.faulty) engine.faults().remember(id);
  const Manifest manifest = parse_manifest(request.problem, "a request to tune");
  const instance::ProblemSpec& spec = manifest.cases.at(0).spec;
  if (spec.backward) {
    return tune<launch::BackwardPass>(out, engine, driver, make_backward_problem(spec));
  }
  return tune<launch::ForwardPass>(out, engine, driver, make_problem(spec));
}

}  // namespace

void serve_tuning(std::istream& in, std::ostream& out, runtime::Engine& engine,
                  const cuda::Driver& driver) {
  base::end_with_parent();
  const cuda::PrimaryContext current(driver);
  std::string line;
  try {
    while (std::getline(in, line)) say(out, answer(parse_request(line), out, engine, driver));
  } catch (const std::exception& error) {
    const Failure failure = failure_of(error);
    say(out, TuneFailure{failure.message, failure.code});
  }
}

}  // namespace attnjit::cli
