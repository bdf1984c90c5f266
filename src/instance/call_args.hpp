#pragma once
#include "attnjit/backward.hpp"
#include "instance/host_buffer.hpp"
#include "instance/problem_spec.hpp"

namespace attnjit::instance {

/// The options of the call that `spec` describes; of its tensors none is set.
BackwardArgs options_of(const ProblemSpec& spec);

/// Makes `tensor` the argument that `role` names.
void set_tensor(BackwardArgs& args, BufferRole role, const Tensor& tensor);

/// The forward's call on tensors that do not exist: non-null, aligned addresses for code that looks
/// at shapes and strides only. Shapes and strides equal those of a HostProblem; a mask that is
/// prepared before the call is a prepared one here.
/// Throws Error(kUnsupported) where a tensor is too large to be counted.
ForwardArgs shape_args(const ProblemSpec& spec);
/// The same of a spec with `backward` set.
BackwardArgs backward_shape_args(const ProblemSpec& spec);

}  // namespace attnjit::instance
