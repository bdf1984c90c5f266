#pragma once
#include <cstdint>

#include "attnjit.h"
#include "device_tensor.hpp"
#include "object.hpp"

namespace attnjit::python {

/// The positional arguments of a call, taken one after the other.
class Arguments {
 public:
  /// Raises TypeError unless `count` is `expected`.
  Arguments(PyObject* const* values, Py_ssize_t count, Py_ssize_t expected);

  PyObject* next() { return *next_++; }
  bool flag();
  std::int64_t integer();

 private:
  PyObject* const* next_;
};

/// The arguments of attnjit_forward(), from (q, k, v, out, lse, mask, bias, seqlens_q, seqlens_kv,
/// scale, causal, diagonal, window_left, window_right, stream). Absent tensors, the default scale,
/// and a stream that q's framework is asked for are None. Its members point at one another.
class ForwardCall {
 public:
  static constexpr Py_ssize_t kNumArguments = 15;

  ForwardCall(Arguments& arguments, TensorReader& reader);
  ForwardCall(const ForwardCall&) = delete;
  ForwardCall& operator=(const ForwardCall&) = delete;

  const attnjit_forward_args& args() const { return args_; }
  std::int32_t device() const { return device_; }
  CUstream_st* stream() const { return stream_; }

 private:
  attnjit_forward_args args_ = ATTNJIT_FORWARD_ARGS_INIT;
  attnjit_tensor mask_{};
  attnjit_tensor bias_{};
  std::int32_t device_ = 0;
  CUstream_st* stream_ = nullptr;
};

/// The arguments of attnjit_backward(), from those of a ForwardCall and (dout, dlse, dq, dk, dv,
/// dbias, deterministic).
class BackwardCall {
 public:
  static constexpr Py_ssize_t kNumArguments = ForwardCall::kNumArguments + 7;

  BackwardCall(Arguments& arguments, TensorReader& reader);
  BackwardCall(const BackwardCall&) = delete;
  BackwardCall& operator=(const BackwardCall&) = delete;

  const attnjit_backward_args& args() const { return args_; }
  std::int32_t device() const { return forward_.device(); }
  CUstream_st* stream() const { return forward_.stream(); }

 private:
  ForwardCall forward_;
  attnjit_backward_args args_ = ATTNJIT_BACKWARD_ARGS_INIT;
  attnjit_tensor dbias_{};
};

}  // namespace attnjit::python
