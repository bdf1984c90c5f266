#pragma once
#include <cstddef>
#include <cstdint>
#include <list>

#include "attnjit/forward.hpp"
#include "cuda/memory.hpp"
#include "problem/problem.hpp"

namespace attnjit::runtime {

/// Tensors for a problem with exactly its shapes and strides, in device memory of their own: q, k,
/// v and bias hold N(0, 1), about half of the mask keeps, and sequences have their full length.
/// Random values matter: a GPU that multiplies zeros draws less power and clocks higher.
class SyntheticTensors {
 public:
  /// Allocates them in the current context and fills them in the order of `stream`. Throws
  /// Error(kCuda) when memory does not suffice. `jobs`: threads that make the random values.
  SyntheticTensors(const cuda::Driver& driver, const problem::Problem& problem, unsigned jobs,
                   CUstream stream);

  /// The call on them. Of its tensors only the addresses are set: all else is in the problem.
  const ForwardArgs& args() const { return args_; }

  /// The memory behind `out`, gaps between its rows included.
  void* out_memory() const { return out_->data(); }
  std::size_t out_bytes() const { return out_->bytes(); }

 private:
  std::list<cuda::DeviceBuffer> buffers_;
  const cuda::DeviceBuffer* out_ = nullptr;
  ForwardArgs args_;
};

}  // namespace attnjit::runtime
