#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "cuda/device.hpp"
#include "launch/plan.hpp"
#include "runtime/call/problem_recorder.hpp"
#include "runtime/load/engine.hpp"
#include "runtime/tune/problem_tuner.hpp"

namespace attnjit::runtime {

/// Whether a plan may wait until its problem is tuned.
enum class Tuning { kAllowed, kForbidden };

/// Makes plans for the current device: tunes a problem where the environment says so, chooses its
/// configuration, and loads its kernels. Thread-safe.
class PlanMaker {
 public:
  /// `engine` must outlive it.
  explicit PlanMaker(Engine& engine)
      : engine_(engine),
        forward_tuner_(engine),
        backward_tuner_(engine),
        recorder_(engine.environment().record_file, engine.log()) {}

  /// The plan of `problem`, whose plan key is `key`, in the current context. A configuration of
  /// Path::kWgmma that is slow (why_slow()) gives way to one without, with one warning. With
  /// Tuning::kAllowed and under ATTNJIT_AUTOTUNE=on a problem without a record is tuned first, a
  /// forward within 2 s and a backward within 10 s, and under force one that this process has not
  /// tuned. Other threads that need tuning wait for it.
  std::unique_ptr<launch::ForwardPlan> make(const cuda::Driver& driver,
                                            const problem::Problem& problem,
                                            const problem::PlanKey& key, Tuning tuning);
  std::unique_ptr<launch::BackwardPlan> make(const cuda::Driver& driver,
                                             const problem::BackwardProblem& problem,
                                             const problem::BackwardPlanKey& key, Tuning tuning);

  /// Whether make() with Tuning::kAllowed would tune a problem of `key` now.
  template <class PlanKey>
  bool would_tune(const cuda::Driver& driver, const PlanKey& key);

  /// Bytes of workspace that `problem`, whose plan key is `key`, needs at most, whatever
  /// configuration make() finds by tuning it or without. Compiles nothing.
  template <class Pass>
  std::size_t most_workspace_bytes(const cuda::Driver& driver,
                                   const typename Pass::Problem& problem,
                                   const typename Pass::Key& key);

  struct Counters {
    std::uint64_t plans = 0;
    std::uint64_t tunes = 0;
    std::uint64_t timing_launches = 0;
    std::uint64_t record_hits = 0;
  };
  Counters counters() const;

 private:
  template <class Pass>
  std::unique_ptr<launch::Plan<Pass>> make(ProblemTuner<Pass>& problem_tuner,
                                           const cuda::Driver& driver,
                                           const typename Pass::Problem& problem,
                                           const typename Pass::Key& plan_key, Tuning tuning);
  template <class PlanKey>
  tuner::BasicTuneKey<PlanKey> tune_key(const cuda::DeviceInfo& device, const PlanKey& key) const;
  template <class PlanKey>
  bool needs_tuning(const tuner::BasicTuneKey<PlanKey>& key);
  template <class Pass>
  bool tune(ProblemTuner<Pass>& problem_tuner, const cuda::Driver& driver,
            const typename Pass::Problem& problem,
            const tuner::BasicTuneKey<typename Pass::Key>& key);

  Engine& engine_;
  ForwardTuner forward_tuner_;
  BackwardTuner backward_tuner_;
  ProblemRecorder recorder_;
  std::mutex tuning_mutex_;
  std::atomic<std::uint64_t> plans_ = 0;
  std::atomic<std::uint64_t> record_hits_ = 0;
};

}  // namespace attnjit::runtime
