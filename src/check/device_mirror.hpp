#pragma once
#include <vector>

#include "cuda/memory.hpp"
#include "instance/host_problem.hpp"

namespace attnjit::check {

/// The buffers of a HostProblem on the current device, guard zones included.
class DeviceMirror {
 public:
  /// Allocates the buffers and copies everything there.
  DeviceMirror(const cuda::Driver& driver, const instance::HostProblem& problem);

  /// The call on the mirrored tensors.
  ForwardArgs args() const { return problem_.args_at(bases()); }
  BackwardArgs backward_args() const { return problem_.backward_args_at(bases()); }

  /// Copies the outputs to the device, poison and guards as they are on the host.
  void upload_outputs();

  /// Copies all buffers of another problem, which are of the same sizes, in place of its own.
  void replace(const instance::HostProblem& problem);

  /// Copies everything back into `problem`, which must be the one this was made from.
  void download(instance::HostProblem& problem) const;

 private:
  std::vector<void*> bases() const;

  const cuda::Driver& driver_;
  const instance::HostProblem& problem_;
  std::vector<cuda::DeviceBuffer> buffers_;
};

}  // namespace attnjit::check
