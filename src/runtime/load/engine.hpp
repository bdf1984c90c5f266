#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "base/environment.hpp"
#include "base/log.hpp"
#include "cache/kernel_cache.hpp"
#include "codegen/arch.hpp"
#include "compiler/compiler.hpp"
#include "launch/backward_plan_spec.hpp"
#include "problem/manifest_line.hpp"
#include "runtime/load/compile_watch.hpp"
#include "runtime/load/refusals.hpp"
#include "tuner/embedded_configs.hpp"
#include "tuner/fault_store.hpp"
#include "tuner/record_store.hpp"
#include "tuner/space.hpp"

namespace attnjit::runtime {

/// The part of a context that needs no GPU: from a problem to its compiled kernels. The command
/// line works on it directly.
class Engine {
 public:
  /// The search spaces of both passes.
  using Spaces = std::tuple<tuner::SearchSpace, tuner::BackwardSearchSpace>;

  /// With a `path` every main kernel is configuration 0's on that path: nothing is tuned, and no
  /// record or verdict of the compiler counts. `shipped`: tuning records that come with the
  /// library, see tuner::ShippedRecords.
  explicit Engine(base::Environment environment, base::Log::Sink sink = {}, Spaces spaces = {},
                  std::optional<codegen::Path> path = {},
                  std::string_view shipped = tuner::embedded_records());

  const base::Environment& environment() const { return environment_; }
  base::Log& log() { return log_; }
  CompileWatch& watch() { return watch_; }
  compiler::Compiler& compiler() { return compiler_; }
  const cache::BundlePath& bundles() const { return bundles_; }
  cache::KernelCache& cache() { return cache_; }
  const cache::KernelCache& cache() const { return cache_; }
  std::optional<codegen::Path> path() const { return path_; }
  template <class PlanKey>
  const tuner::BasicSearchSpace<PlanKey>& space() const {
    return std::get<tuner::BasicSearchSpace<PlanKey>>(spaces_);
  }
  tuner::RecordStore& records() { return records_; }
  Refusals& refusals() { return refusals_; }
  tuner::FaultStore& faults() { return faults_; }
  const codegen::TemplateSet& templates() const { return templates_; }

  /// The kernels that a problem runs on `arch`, under `config` or else configuration 0. Throws
  /// Error(kInvalidProblem) when that is not legal for them.
  launch::ForwardPlanSpec plan(const problem::Problem& problem, const codegen::Arch& arch,
                               const std::optional<codegen::ForwardTunables>& config = {});
  launch::BackwardPlanSpec plan(const problem::BackwardProblem& problem, const codegen::Arch& arch,
                                const std::optional<codegen::BackwardTunables>& config = {});

  /// The same for a problem of `family` under `config`.
  launch::ForwardPlanSpec plan(const problem::Family& family, const codegen::Arch& arch,
                               const codegen::ForwardTunables& config);
  launch::BackwardPlanSpec plan(const problem::BackwardFamily& family, const codegen::Arch& arch,
                                const codegen::BackwardTunables& config);

  /// The name of the kernel of `source` in the cache.
  cache::KernelKey key(const codegen::Source& source, const codegen::Arch& arch) const;

  /// The compiled kernel: from memory, a bundle, disk, or NVRTC. `problem` is for messages.
  std::shared_ptr<const cache::Entry> kernel(const codegen::Source& source,
                                             const codegen::Arch& arch,
                                             const problem::ProblemText& problem);

  /// Another entry of that kernel in the place of `refused`, as KernelCache::second_entry().
  cache::SecondEntry second_kernel(const cache::Entry& refused, const codegen::Source& source,
                                   const codegen::Arch& arch, const problem::ProblemText& problem);

  /// The file that `entry` comes from or is kept in: a bundle, or one of the cache directory.
  std::string origin(const cache::Entry& entry) const;

  /// kernel(), and where it was.
  cache::Fetched fetch(const codegen::Source& source, const codegen::Arch& arch,
                       const problem::ProblemText& problem);

 private:
  cache::Entry build(const codegen::Source& source, const codegen::Arch& arch,
                     const problem::ProblemText& problem);

  const base::Environment environment_;
  base::Log log_;
  const codegen::TemplateSet templates_;
  const cache::BundlePath bundles_;
  CompileWatch watch_;
  compiler::Compiler compiler_;
  cache::KernelCache cache_;
  const Spaces spaces_;
  const std::optional<codegen::Path> path_;
  tuner::RecordStore records_;
  tuner::FaultStore faults_;
  Refusals refusals_;
};

/// The compiler's facts of a cached kernel; nullopt where its metadata does not hold them.
std::optional<compiler::Facts> facts(const cache::Entry& entry);

}  // namespace attnjit::runtime
