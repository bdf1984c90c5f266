#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "cli/report/kept.hpp"
#include "cli/report/table.hpp"
#include "cli/report/tile_cell.hpp"
#include "cli/verbs/verbs.hpp"
#include "cuda/device.hpp"
#include "runtime/plan_loader.hpp"
#include "runtime/problem_tuner.hpp"
#include "runtime/stale_record.hpp"

namespace attnjit::cli {
namespace {

void check_allowed(const base::Environment& environment) {
  expect_cache(environment, "tune");
  if (environment.disable_autotune) {
    usage_error("tune measures, and DISABLE_AUTOTUNE forbids that; unset it");
  }
}

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

template <class PlanKey>
double noise(const tuner::BasicRecord<PlanKey>& record) {
  return record.us > 0 ? record.mad / record.us : 0;
}

/// Notes each problem as it is done, and collects all for the table and for --json.
class TuneTable {
 public:
  TuneTable(Console& console, std::size_t total) : console_(console), total_(total) {}

  /// `state`: "gain" or "no_gain" of a contest, "recorded" of an earlier one. `why_not_kept`: why
  /// the record is not on disk; nullopt: it is.
  template <class PlanKey>
  void add(const Case& job, const tuner::BasicRecord<PlanKey>& record, const std::string& state,
           const codegen::Arch& arch, const std::optional<std::string>& why_not_kept = {}) {
    kept_.add(why_not_kept);
    const auto zero = tuner::config_zero(record.key.plan, arch);
    table_.add({job.name, main_tile(zero), fmt::format("{:.1f}", record.default_us),
                changed_tiles(record.config, zero), fmt::format("{:.1f}", record.us),
                percent(record.gain()), percent(noise(record)),
                record.partial ? state + ", partial" : state});
    results_.push_back({{"name", job.name},
                        {"state", state},
                        {"configuration_0", codegen::describe_tile(zero)},
                        {"kept", !why_not_kept},
                        {"record", base::parse_json(to_json(record))}});
    outcomes_.push_back(ExitCode::kDone);
    note(job, fmt::format("{:.1f} us, gain {} ({})", record.us, percent(record.gain()), state));
  }

  /// A problem whose buckets another one of this run has tuned for.
  void add_same(const Case& job, const std::string& other) {
    results_.push_back({{"name", job.name}, {"state", "same"}, {"as", other}});
    outcomes_.push_back(ExitCode::kDone);
    note(job, fmt::format("the record of {}", other));
  }

  void add_failure(const Case& job, const std::string& message, ExitCode code) {
    console_.error(fmt::format("{}: {}", job.name, message));
    results_.push_back({{"name", job.name}, {"state", "failed"}, {"error", message}});
    outcomes_.push_back(code);
  }

  ExitCode finish(const std::string& device) {
    console_.print("device  {}\n\n{}", device, table_.text());
    console_.print_json({{"device", device}, {"results", results_}});
    kept_.report("records are", console_);
    return kept_.missing() == 0 ? combine(outcomes_) : kept_.code();
  }

 private:
  void note(const Case& job, const std::string& text) {
    console_.note("{}/{} {}: {}", outcomes_.size(), total_, job.name, text);
  }

  Console& console_;
  const std::size_t total_;
  Table table_{{{"problem"},
                {"configuration 0"},
                {"us", true},
                {"winner"},
                {"us", true},
                {"gain", true},
                {"noise", true},
                {"from"}}};
  Json results_ = Json::array();
  std::vector<ExitCode> outcomes_;
  Kept kept_;
};

template <class Pass>
std::string why_inconclusive(const runtime::TuneReport<Pass>& report) {
  if (!report.note.empty()) return report.note;
  return "the device changed speed while it was measured, twice; nothing is kept; tune on an idle "
         "device";
}

/// Tunes problems of one pass, one after another.
template <class Pass>
class Tuning {
 public:
  Tuning(Session& session, const cuda::Driver& driver, const TuneOptions& options, TuneTable& table)
      : engine_(session.engine()),
        driver_(driver),
        tuner_(engine_),
        options_(options),
        device_(cuda::current_device(driver)),
        arch_(runtime::arch_of(device_)),
        table_(table) {}

  void tune(const Case& job, const typename Pass::Problem& problem) {
    const PlanKey plan = problem::plan_key(problem);
    if (const auto [place, first] = seen_.emplace(plan, job.name); !first) {
      return table_.add_same(job, place->second);
    }
    const auto known = engine_.records().find_exact(tuner::BasicTuneKey<PlanKey>{
        runtime::device_class(device_), plan, engine_.space<PlanKey>().name()});
    if (known && suffices(*known, problem)) return table_.add(job, *known, "recorded", arch_);
    const runtime::TuneReport<Pass> report = tuner_.tune(driver_, problem);
    if (!report.result.conclusive()) {
      return table_.add_failure(job, why_inconclusive(report), ExitCode::kFailure);
    }
    table_.add(job, report.record, report.record.verdict, arch_, report.why_not_kept);
  }

 private:
  using PlanKey = typename Pass::Key;

  bool suffices(const tuner::BasicRecord<PlanKey>& record, const typename Pass::Problem& problem) {
    if (options_.force || record.partial) return false;
    return !options_.stale || !runtime::is_stale<Pass>(engine_, record, problem, arch_);
  }

  runtime::Engine& engine_;
  const cuda::Driver& driver_;
  runtime::ProblemTuner<Pass> tuner_;
  const TuneOptions& options_;
  const cuda::DeviceInfo device_;
  const codegen::Arch arch_;
  TuneTable& table_;
  std::map<PlanKey, std::string> seen_;
};

}  // namespace

ExitCode tune(const TuneOptions& options, Session& session) {
  check_allowed(session.environment());
  const Workload workload = load_workload(options.workload, session.console());
  const cuda::Driver& driver = session.driver();
  const cuda::PrimaryContext current(driver);
  TuneTable table(session.console(), workload.cases.size());
  Tuning<launch::ForwardPass> forwards(session, driver, options, table);
  Tuning<launch::BackwardPass> backwards(session, driver, options, table);
  for (const Case& job : workload.cases) {
    try {
      if (job.spec.backward) {
        backwards.tune(job, make_backward_problem(job.spec));
      } else {
        forwards.tune(job, make_problem(job.spec));
      }
    } catch (const Error& error) {
      table.add_failure(job, error.what(), exit_code(error.kind()));
    }
  }
  return table.finish(describe(runtime::device_class(cuda::current_device(driver))));
}

}  // namespace attnjit::cli
