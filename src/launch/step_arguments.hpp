#pragma once
#include <algorithm>
#include <cstddef>
#include <initializer_list>

#include "codegen/features.hpp"
#include "cuda/launch.hpp"
#include "launch/grid.hpp"

namespace attnjit::launch {

/// Grids and parameters of the steps of one call of `Spec`: of kernels that compute scores up to
/// `kOwn` parameters and those of the features. Building it allocates nothing.
template <class Spec, std::size_t kOwn>
class StepArguments {
 public:
  using Kind = typename Spec::Kind;

  StepArguments(const StepArguments&) = delete;
  StepArguments& operator=(const StepArguments&) = delete;

  /// Whether a step has anything to do.
  bool runs(Kind kind) const { return shape(kind).grid[0] != 0; }
  const cuda::LaunchShape& shape(Kind kind) const { return shapes_[index(kind)]; }
  /// One pointer per kernel parameter of a step.
  void** parameters(Kind kind) { return lists_[index(kind)]; }

  // The same by the place of a step in the plan.
  bool runs(std::size_t step) const { return runs(spec_.steps.kind(step)); }
  const cuda::LaunchShape& shape(std::size_t step) const { return shape(spec_.steps.kind(step)); }
  void** parameters(std::size_t step) { return parameters(spec_.steps.kind(step)); }

 protected:
  explicit StepArguments(const Spec& spec) : spec_(spec) {
    for (cuda::LaunchShape& shape : shapes_) shape.grid[0] = 0;
  }
  ~StepArguments() = default;

  /// Sets the thread blocks of a step, if the plan has it. Throws Error(kInvalidProblem) where they
  /// are too many for a launch.
  void set_shape(Kind kind, std::int64_t blocks) {
    const std::size_t step = spec_.steps.find(kind);
    if (step < spec_.steps.size()) shapes_[index(kind)] = launch_shape(spec_.steps[step], blocks);
  }
  /// A step overlaps none, because the step ahead of it in the plan does not run: the kernel ahead
  /// is the caller's, whose results all threads read.
  void begin_after_all(Kind kind) { shapes_[index(kind)].overlaps = false; }
  /// At most `most` thread blocks of a step stay on their SMs.
  void limit_blocks(Kind kind, unsigned most) {
    unsigned& blocks = shapes_[index(kind)].grid[0];
    blocks = std::min(blocks, most);
  }
  /// Lists the parameters of a step: its own ones, then of the features, where it has these.
  void list(Kind kind, std::initializer_list<void*> own) {
    *std::ranges::copy(own, lists_[index(kind)]).out = nullptr;
  }
  void list(Kind kind, std::initializer_list<void*> own, codegen::FeatureValues& features) {
    void** const end = std::ranges::copy(own, lists_[index(kind)]).out;
    *codegen::list_parameters(spec_.features, features, end) = nullptr;
  }

  const Spec& spec_;

 private:
  static constexpr std::size_t index(Kind kind) { return static_cast<std::size_t>(kind); }

  cuda::LaunchShape shapes_[Spec::kKinds];
  void* lists_[Spec::kKinds][kOwn + codegen::kNumFeatures + 1];  // each up to a null
};

}  // namespace attnjit::launch
