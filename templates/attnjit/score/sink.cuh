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
    if (row.owner.query >= block.query_len + block.dropped_queries) return;
    const float sink = load_sink<kDType>(params, row.owner.head);
    if (sink == -ptx::infinity()) return;
    if (row.keys_lse == -ptx::infinity()) {
      row.lse = sink;
      return;
    }
    const float highest = row.keys_lse > sink ? row.keys_lse : sink;
    const float sum = ptx::exp2_approx((row.keys_lse - highest) * kLog2E) +
                      ptx::exp2_approx((sink - highest) * kLog2E);
    row.lse = fmaf(ptx::log2_approx(sum), kLn2, highest);
    if (row.lse < least_live_lse(sink)) row.lse = least_live_lse(sink);
    row.share = ptx::exp2_approx((row.keys_lse - row.lse) * kLog2E);
  }
};

}  // namespace attnjit::kernel
