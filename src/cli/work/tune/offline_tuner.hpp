#pragma once
#include <map>
#include <string>
#include <tuple>

#include "cli/input/cases.hpp"
#include "cli/report/tuned_problem.hpp"
#include "cli/work/tune/tune_worker.hpp"
#include "cuda/device.hpp"
#include "launch/plan.hpp"
#include "runtime/load/engine.hpp"

namespace attnjit::cli {

/// The problems that are measured again though they have a record.
struct Remeasure {
  bool all = false;
  bool stale = false;  ///< those of which runtime::is_stale()
};

/// Tunes problems for a device, one after another, in a worker process. A configuration that ends
/// the worker is kept as a fault, and the problem is tuned without it.
class OfflineTuner {
 public:
  /// `engine` and `worker` must outlive it. The worker uses the same cache directory. Throws
  /// Error(kUnsupported) where there are no kernels for `device`.
  OfflineTuner(runtime::Engine& engine, TuneWorker& worker, const cuda::DeviceInfo& device,
               const Remeasure& remeasure);

  /// Tunes a problem, unless it has a record; what keeps it from that is in the result.
  TunedProblem tune(const Case& job);

 private:
  template <class Pass>
  TunedProblem tune(const Case& job, const typename Pass::Problem& problem);
  template <class Pass>
  TunedProblem measure(const typename Pass::Problem& problem);
  template <class Pass>
  tuner::Fault fault_of(const typename Pass::Problem& problem, const BrokenConfig& broken);
  template <class Pass>
  bool suffices(const tuner::BasicRecord<typename Pass::Key>& record,
                const typename Pass::Problem& problem);

  template <class PlanKey>
  using Names = std::map<PlanKey, std::string>;

  runtime::Engine& engine_;
  TuneWorker& worker_;
  const tuner::DeviceClass device_;
  const codegen::Arch arch_;
  const Remeasure remeasure_;
  std::tuple<Names<problem::PlanKey>, Names<problem::BackwardPlanKey>> seen_;
};

}  // namespace attnjit::cli
