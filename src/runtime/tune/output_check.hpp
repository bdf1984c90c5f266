#pragma once
#include <span>
#include <vector>

#include "runtime/tune/synthetic_tensors.hpp"

namespace attnjit::runtime {

/// The elements in samples of `output`: all of them, or 64 samples of 64 KiB spread over
/// the whole.
std::vector<float> sample_output(const cuda::Driver& driver, const OutputMemory& output,
                                 CUstream stream);

/// Whether `candidate` is what `expected`, another configuration's output, says. `dtype` is that of
/// q: rounding to it differs between configurations; a kernel that is wrong is off by the size of
/// the values. What both left unwritten is NaN in both; a NaN in one is wrong.
bool outputs_agree(DType dtype, std::span<const float> expected, std::span<const float> candidate);

}  // namespace attnjit::runtime
