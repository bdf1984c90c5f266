#pragma once
#include <optional>
#include <vector>

#include "attnjit/context.hpp"
#include "cuda/memory.hpp"
#include "instance/host_problem.hpp"

namespace attnjit::check {

/// The buffers of a HostProblem on the current device, guard zones included.
class DeviceMirror {
 public:
  /// Allocates the buffers and copies everything there.
  DeviceMirror(const cuda::Driver& driver, const instance::HostProblem& problem);

  /// The call on the mirrored tensors, with the prepared mask if prepare_mask() has made one.
  ForwardArgs args() const { return with_prepared_mask(problem_.args_at(bases())); }
  BackwardArgs backward_args() const {
    BackwardArgs args = problem_.backward_args_at(bases());
    args.forward = with_prepared_mask(args.forward);
    return args;
  }

  /// Prepares the mask in the order of `stream` where the problem's spec says so, in the same
  /// memory each time. `context` is a Context or a runtime::Dispatcher.
  template <class AnyContext>
  void prepare_mask(AnyContext& context, Stream stream) {
    const instance::ProblemSpec& spec = problem_.spec();
    if (!spec.prepare_mask) return;
    PrepareMaskArgs mask{.mask = problem_.args_at(bases()).mask.value(),
                         .for_backward = spec.backward,
                         .memory = nullptr};
    if (!prepared_memory_) prepared_memory_.emplace(driver_, context.prepared_mask_size(mask));
    mask.memory = prepared_memory_->data();
    prepared_mask_ = context.prepare_mask(mask, stream);
  }

  /// Copies the outputs to the device, poison and guards as they are on the host.
  void upload_outputs();

  /// Copies all buffers of another problem, which are of the same sizes, in place of its own.
  void replace(const instance::HostProblem& problem);

  /// Copies everything back into `problem`, which must be the one this was made from.
  void download(instance::HostProblem& problem) const;

 private:
  std::vector<void*> bases() const;
  ForwardArgs with_prepared_mask(ForwardArgs args) const;

  const cuda::Driver& driver_;
  const instance::HostProblem& problem_;
  std::vector<cuda::DeviceBuffer> buffers_;
  std::optional<cuda::DeviceBuffer> prepared_memory_;
  std::optional<PreparedMask> prepared_mask_;
};

}  // namespace attnjit::check
