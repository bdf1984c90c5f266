#pragma once
#include <span>
#include <vector>

#include "attnjit/backward.hpp"
#include "instance/host_buffer.hpp"
#include "instance/problem_spec.hpp"

namespace attnjit::instance {

/// The options of the call that `spec` describes; of its tensors none is set.
BackwardArgs options_of(const ProblemSpec& spec);

/// Makes `tensor` the argument that `role` names.
void set_tensor(BackwardArgs& args, BufferRole role, const Tensor& tensor);

/// The operands of a call, whose tensors are those of `buffers` in this order. Names are the
/// spec's.
std::vector<Operand> operands_of(const ProblemSpec& spec, std::span<const Tensor> tensors);

/// Their gradients, an empty one where it is not wanted; `tensors` are the others in this order.
std::vector<Tensor> gradients_of(const ProblemSpec& spec, std::span<const Tensor> tensors);

/// A call on tensors that do not exist: non-null, aligned addresses for code that looks at shapes
/// and strides only. Shapes and strides equal those of a HostProblem; a mask that is prepared
/// before the call is a prepared one here.
class ShapeCall {
 public:
  /// `spec` must outlive this. Throws Error(kUnsupported) where a tensor is too large to be
  /// counted.
  explicit ShapeCall(const ProblemSpec& spec);
  ShapeCall(const ShapeCall&) = delete;
  ShapeCall& operator=(const ShapeCall&) = delete;

  const ForwardArgs& forward() const { return args_.forward; }
  /// Of a spec with `backward` set.
  const BackwardArgs& backward() const { return args_; }

 private:
  std::vector<Operand> operands_;
  std::vector<Tensor> gradients_;
  BackwardArgs args_;
};

}  // namespace attnjit::instance
