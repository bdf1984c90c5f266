#include "attnjit/error.hpp"
#include "base/json.hpp"
#include "cli/verbs/verbs.hpp"
#include "cli/work/spec_values.hpp"
#include "instance/call_args.hpp"
#include "runtime/explain/explainer.hpp"

namespace attnjit::cli {
namespace {

// Prints explanations as they are made and collects them for --json.
class ExplainReport {
 public:
  explicit ExplainReport(Console& console) : console_(console) {}

  void add(const Case& job, explain::Explanation explanation) {
    explanation.name = job.name;
    if (!outcomes_.empty()) console_.print("");
    bool indented = false;
    for (const std::string& line : explain::lines(explanation)) {
      console_.print("{}{}", indented ? "  " : "", line);
      indented = true;
    }
    Json row = explain::to_json(explanation);
    row["spec"] = instance::describe(job.spec);
    rows_.push_back(std::move(row));
    outcomes_.push_back(ExitCode::kDone);
  }

  void add_failure(const Case& job, const Failure& failure) {
    console_.error(fmt::format("{}: {}", job.name, failure.message));
    rows_.push_back({{"name", job.name}, {"error", failure.message}});
    outcomes_.push_back(failure.code);
  }

  ExitCode finish() {
    console_.print_json({{"problems", rows_}});
    return combine(outcomes_);
  }

 private:
  Console& console_;
  Json rows_ = Json::array();
  std::vector<ExitCode> outcomes_;
};

// The first GPU, or nullopt where there is none.
std::optional<cuda::DeviceInfo> device_here(Session& session) {
  try {
    const std::vector<cuda::DeviceInfo> here = cuda::devices(session.driver());
    return here.empty() ? std::nullopt : std::optional(here.front());
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kNoDevice) throw;
    return std::nullopt;
  }
}

}  // namespace

ExitCode explain(const WorkloadOptions& options, Session& session) {
  const Workload workload = load_workload(options, session.console());
  runtime::Explainer explainer(session.engine(), device_here(session));
  ExplainReport report(session.console());
  for (const Case& job : workload.cases) {
    try {
      const instance::ShapeCall call(job.spec);
      const explain::Values values = values_of(job.spec);
      report.add(job, job.spec.backward ? explainer.explain(call.backward(), values)
                                        : explainer.explain(call.forward(), values));
    } catch (const std::exception& error) {
      report.add_failure(job, failure_of(error));
    }
  }
  return report.finish();
}

}  // namespace attnjit::cli
