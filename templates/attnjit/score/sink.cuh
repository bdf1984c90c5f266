#pragma once
#include "attnjit/ptx/math.cuh"
#include "attnjit/score/feature.cuh"
#include "attnjit/score/load_sink.cuh"

namespace attnjit::kernel {

// Adds a sink to the sum of each row in use. Where keys are split, the first split does.
template <DType kDType>
struct Sink : Feature {
  const SinkParams& params;

  ATTNJIT_DEVICE explicit Sink(const SinkParams& p) : params(p) {}

  template <class Row>
  ATTNJIT_DEVICE void close(const Block& block, Row& row) {
    // Selects, because branches keep a thread's rows from being closed side by side. Without a key
    // lse is the sink, and without a sink it is that of the keys: the other's exponential is 0.
    const bool in_use = row.owner.query < block.query_len + block.dropped_queries;
    const float loaded = load_sink<kDType>(params, row.owner.head);
    const float sink = in_use ? loaded : -ptx::infinity();
    const float highest = row.keys_lse > sink ? row.keys_lse : sink;
    const float origin = highest == -ptx::infinity() ? 0.0f : highest;
    const float sum = ptx::exp2_approx((row.keys_lse - origin) * kLog2E) +
                      ptx::exp2_approx((sink - origin) * kLog2E);
    row.lse = fmaf(ptx::log2_approx(sum), kLn2, origin);
    const bool has_key = row.keys_lse > -ptx::infinity();
    if (has_key && row.lse < least_live_lse(sink)) row.lse = least_live_lse(sink);
    row.share = ptx::exp2_approx((row.keys_lse - row.lse) * kLog2E);
  }
};

}  // namespace attnjit::kernel
