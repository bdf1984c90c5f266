#pragma once
#include <cstddef>
#include <list>
#include <vector>

#include "cuda/memory.hpp"
#include "launch/plan.hpp"

namespace attnjit::runtime {

/// The memory of an output, gaps between its rows included.
struct OutputMemory {
  void* data = nullptr;
  std::size_t bytes = 0;
  DType dtype = DType::kFloat32;
};

/// Tensors for a problem with exactly its shapes and strides, in device memory of their own: q, k,
/// v, bias, dout and dlse hold N(0, 1), about half of the mask keeps, and sequences have their full
/// length. Random values matter: a GPU that multiplies zeros draws less power and clocks higher.
/// Out and lse, which a backward reads, are left unwritten.
template <class Pass>
class BasicSyntheticTensors {
 public:
  /// Allocates them in the current context and fills them in the order of `stream`. Throws
  /// Error(kCuda) when memory does not suffice. `jobs`: threads that make the random values.
  BasicSyntheticTensors(const cuda::Driver& driver, const typename Pass::Problem& problem,
                        unsigned jobs, CUstream stream);

  /// The call on them. Of its tensors only the addresses are set: all else is in the problem.
  const typename Pass::Args& args() const { return args_; }

  /// The outputs of the kernels, lse apart: out; of a backward dq, dk, dv and dbias.
  const std::vector<OutputMemory>& outputs() const { return outputs_; }

 private:
  std::list<cuda::DeviceBuffer> buffers_;
  std::vector<OutputMemory> outputs_;
  std::vector<Operand> operands_;          // of expressions
  std::vector<Tensor> operand_gradients_;  // of a backward, as many
  typename Pass::Args args_;
};

}  // namespace attnjit::runtime
