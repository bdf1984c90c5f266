#pragma once
#include "attnjit/backward.hpp"
#include "unit/forward_fixtures.hpp"

namespace attnjit::test {

/// A dense tensor of the shape and dtype of `like`.
inline Tensor dense_like(const Tensor& like, std::uintptr_t index) {
  return Tensor::contiguous(fake_address(index), like.dtype, like.shape);
}

/// The gradients of `forward` on dense tensors: no dlse, no dbias, not deterministic.
inline BackwardArgs backward_args(const ForwardArgs& forward = forward_args()) {
  BackwardArgs args;
  args.forward = forward;
  args.forward.lse = fake_address<float>(10);
  args.dout = dense_like(forward.out, 11);
  args.dq = dense_like(forward.q, 12);
  args.dk = dense_like(forward.k, 13);
  args.dv = dense_like(forward.v, 14);
  return args;
}

/// backward_args() of a call with a bias, whose gradient is wanted where the bias has elements.
inline BackwardArgs bias_args(std::string_view pattern,
                              const ForwardArgs& forward = forward_args()) {
  BackwardArgs args = backward_args(forward);
  args.forward.bias = bias(forward, pattern);
  args.dbias = operand(forward, pattern, forward.q.dtype, 15);
  return args;
}

}  // namespace attnjit::test
