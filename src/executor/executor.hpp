#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "attnjit/backward.hpp"
#include "base/environment.hpp"
#include "cache/kernel_cache.hpp"
#include "codegen/templates.hpp"
#include "executor/global_memory.hpp"
#include "executor/host_compiler.hpp"
#include "executor/host_kernel.hpp"
#include "launch/backward_plan_spec.hpp"
#include "launch/forward_plan_spec.hpp"
#include "launch/mask_plan.hpp"
#include "launch/merge_plan.hpp"

namespace attnjit::executor {

/// Runs generated kernels on the CPU: the same sources that NVRTC compiles, with the primitives of
/// src/executor/primitives in place of attnjit/ptx. Thread-safe.
class Executor {
 public:
  struct Options {
    std::string compiler;             ///< see HostCompiler
    cache::KernelCacheOptions cache;  ///< where compiled kernels are kept, as cubins are
    codegen::TemplateSet templates;   ///< those that the plans were made with
    base::JitPolicy jit = base::JitPolicy::kAllow;  ///< of the host compiler as of NVRTC
    unsigned jobs = 1;                              ///< threads that run thread blocks
  };
  /// `log` must outlive it.
  Executor(Options options, base::Log& log);

  /// The text that the host compiler sees for `source`. Throws Error(kUnsupported) naming a header
  /// of primitives that the executor lacks.
  std::string host_source(const codegen::Source& source) const;

  /// Runs all steps of `plan` on tensors in host memory, each access checked. Throws Violation for
  /// what a kernel does wrong, and Error as HostCompiler::compile() does.
  void forward(const launch::ForwardPlanSpec& plan, const problem::Problem& problem,
               const ForwardArgs& args);
  void backward(const launch::BackwardPlanSpec& plan, const problem::BackwardProblem& problem,
                const BackwardArgs& args);
  void merge_lse(const launch::MergePlanSpec& plan, const problem::MergeProblem& problem,
                 const MergeLseArgs& args);
  void prepare_mask(const launch::MaskPlanSpec& plan, const problem::MaskProblem& problem,
                    const PrepareMaskArgs& args);

  cache::Counters counters() const { return cache_.counters(); }

 private:
  std::shared_ptr<const HostKernel> kernel(const codegen::Source& source);
  cache::Entry build(const codegen::Source& source, const std::string& text);
  void run(const launch::StepSpec& step, unsigned blocks, void* const* parameters,
           GlobalMemory& memory);

  base::Log& log_;
  const base::JitPolicy jit_;
  const unsigned jobs_;
  const codegen::TemplateSet templates_;
  HostCompiler compiler_;
  cache::KernelCache cache_;
  std::mutex mutex_;
  std::map<cache::KernelKey, std::shared_ptr<const HostKernel>> loaded_;
};

}  // namespace attnjit::executor
