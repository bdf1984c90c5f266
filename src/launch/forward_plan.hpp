#pragma once
#include <memory>
#include <vector>

#include "cuda/library.hpp"
#include "launch/forward_arguments.hpp"

namespace attnjit::launch {

/// A forward whose kernels are loaded into one context. Immutable; any thread may launch it, on
/// any stream of that context.
class ForwardPlan {
 public:
  /// `libraries` holds the cubin of each step, in order. Loads the kernels into the current
  /// context.
  ForwardPlan(ForwardPlanSpec spec, std::vector<std::unique_ptr<cuda::Library>> libraries);

  const ForwardPlanSpec& spec() const { return spec_; }

  /// Enqueues all steps. `layout` and `workspace` as for ForwardArguments.
  void launch(const cuda::Driver& driver, const problem::Problem& problem, const ForwardArgs& args,
              const WorkspaceLayout& layout, void* workspace, CUstream stream) const;

 private:
  ForwardPlanSpec spec_;
  std::vector<std::unique_ptr<cuda::Library>> libraries_;
  std::vector<cuda::Kernel> kernels_;
};

}  // namespace attnjit::launch
