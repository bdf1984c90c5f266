#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "attnjit/tensor.hpp"
#include "cuda/memory.hpp"

namespace attnjit::runtime {

/// The 16-bit elements in a sample of pieces of `bytes` bytes of device memory at `memory`: all of
/// them, or 64 pieces of 64 KiB spread over the whole.
std::vector<std::uint16_t> sample_output(const cuda::Driver& driver, const void* memory,
                                         std::size_t bytes, CUstream stream);

/// Whether `candidate` is what `expected`, another configuration's output of fp16 or bf16 values,
/// says. Rounding differs between configurations; a kernel that is wrong is off by the size of the
/// values. What both left unwritten is equal bit by bit; a NaN anywhere else is wrong.
bool outputs_agree(DType dtype, std::span<const std::uint16_t> expected,
                   std::span<const std::uint16_t> candidate);

}  // namespace attnjit::runtime
