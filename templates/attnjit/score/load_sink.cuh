#pragma once
#include "attnjit/ptx/math.cuh"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/score/sink_params.h"

namespace attnjit::kernel {

// The sink of a head; a sink that counts as -inf becomes -inf, which means no sink.
template <DType kDType>
ATTNJIT_DEVICE float load_sink(const SinkParams& params, int head) {
  const int64 index = head * params.head_stride;
  float sink;
  if constexpr (kDType == DType::kFloat32) {
    sink = ptx::load_global(static_cast<const float*>(params.data) + index);
  } else {
    sink = ptx::widen<kDType>(ptx::load_global(static_cast<const uint16*>(params.data) + index));
  }
  return sink <= kDeadScore ? -ptx::infinity() : sink;
}

}  // namespace attnjit::kernel
