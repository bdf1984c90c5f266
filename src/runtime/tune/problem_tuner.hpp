#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cuda/driver.hpp"
#include "launch/plan.hpp"
#include "runtime/load/engine.hpp"
#include "runtime/tune/tune_watch.hpp"
#include "tuner/contest.hpp"
#include "tuner/record.hpp"

namespace attnjit::runtime {

/// The outcome of tuning one problem.
template <class Pass>
struct TuneReport {
  /// The record that was kept; of configuration 0 unless the verdict is a gain.
  tuner::BasicRecord<typename Pass::Key> record;
  tuner::ContestResult result;  ///< inconclusive results are kept in memory only
  std::size_t candidates = 0;   ///< that the space holds for the problem, configuration 0 included
  std::size_t rejected = 0;     ///< they spill, do not load, or compute something else
  std::size_t skipped = 0;      ///< not compiled in time, or not at all
  std::size_t faulty = 0;       ///< known to hang or crash this kind of device, and not tried
  std::vector<typename Pass::Tunables> entrants;  ///< of the contest, as result.medians has them
  std::string note;                               ///< why nothing was measured; else empty
  std::optional<std::string> why_not_kept;        ///< why a conclusive record is not on disk
  double seconds = 0;
};

/// Finds the fastest configuration of problems on the current device. Tune one problem at a time:
/// two would disturb each other.
template <class Pass>
class ProblemTuner {
 public:
  using Watch = TuneWatch<typename Pass::Tunables>;

  /// `engine` must outlive it.
  explicit ProblemTuner(Engine& engine, Watch watch = {})
      : engine_(engine), watch_(std::move(watch)) {}

  /// Compiles the candidates of the search space for `plan_key`, that of `problem`, but for those
  /// that are known to be faulty, checks each against configuration 0, holds the contest and keeps
  /// the record. Where the wgmma of configuration 0 is slow (why_slow()) the candidates are those
  /// without. The tensors are the tuner's own. A `budget` limits all of that, but for a compile or
  /// launch that has begun. Where memory does not suffice configuration 0 wins unmeasured. Throws
  /// Error(kInternal) under DISABLE_AUTOTUNE, and what keeps configuration 0 from running. The
  /// current thread's work may be part of no stream capture.
  TuneReport<Pass> tune(const cuda::Driver& driver, const typename Pass::Problem& problem,
                        const typename Pass::Key& plan_key,
                        std::optional<std::chrono::milliseconds> budget = {});
  TuneReport<Pass> tune(const cuda::Driver& driver, const typename Pass::Problem& problem,
                        std::optional<std::chrono::milliseconds> budget = {}) {
    return tune(driver, problem, problem::plan_key(problem), budget);
  }

  std::uint64_t tunes() const { return tunes_; }
  std::uint64_t timing_launches() const { return timing_launches_; }

 private:
  Engine& engine_;
  const Watch watch_;
  std::atomic<std::uint64_t> tunes_ = 0;
  std::atomic<std::uint64_t> timing_launches_ = 0;
};

using ForwardTuner = ProblemTuner<launch::ForwardPass>;
using BackwardTuner = ProblemTuner<launch::BackwardPass>;

}  // namespace attnjit::runtime
