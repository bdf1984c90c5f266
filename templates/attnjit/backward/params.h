#pragma once
#include "attnjit/forward/params.h"

namespace attnjit::kernel {

// Rows of one (batch, query head) in the arrays below: seqlen_q rounded up to this.
inline constexpr int kRowBlock = 64;

// Probabilities are multiplied by this when they are rounded, and dv by its inverse: fp16 would
// keep fewer digits below 2^-14, and none below 2^-25. P is 1 at most, so that its multiple fits.
ATTNJIT_CONSTEXPR float probability_scale(DType dtype) {
  return dtype == DType::kFloat16 ? 16384.0f : 1.0f;
}

// The bytes of what is taken off the scores and off dP of a row, as the matrix units take it: eight
// bf16 numbers, of which the first three add up to -lse / scale, the next three to -delta, and the
// last two are 0. Three bf16 numbers hold the 24 bits of a float.
inline constexpr int kRowBf16x3Bytes = 16;

// What the preprocess kernel tells of each row; [batch][query head][padded row].
struct GradientRows {
  float* lse;    // +inf for a dead row: its probabilities become 0
  float* delta;  // rowsum(dout out) - dlse, 0 for a dead row
  uint32* live;  // a bit per row, [batch][query head][padded row / 32]
};

// Run-time arguments of the kernels of the backward that compute scores. Where gradients are added
// up in fp32, they lie as fragments of 16 rows by 8 columns, 128 floats each, in the order that
// ptx/accumulate.cuh has them: [plane][row / 16][column / 8][128].
struct BackwardParams {
  const void* q;     // [batch, num_heads_q, seqlen_q, head_dim]
  const void* k;     // [batch, num_heads_q / gqa_ratio, seqlen_kv, head_dim]
  const void* v;     // [batch, num_heads_q / gqa_ratio, seqlen_kv, head_dim_v]
  const void* dout;  // [batch, num_heads_q, seqlen_q, head_dim_v]
  void* dq;          // as q
  void* dk;          // as k
  void* dv;          // as v
  GradientRows rows;
  float* dq_sum;  // fragments of dq / scale where the config adds_dq; planes are query heads
  float* dk_sum;  // fragments of dk / scale, used where num_splits > 1; planes are kv heads
  float* dv_sum;  // fragments of dv times probability_scale(), as dk_sum
  RowStrides q_strides, k_strides, v_strides, dout_strides, dq_strides, dk_strides, dv_strides;
  int32 batch;
  int32 num_heads_q;
  int32 seqlen_q;
  int32 seqlen_kv;
  int32 padded_rows;         // seqlen_q rounded up to kRowBlock
  int32 num_q_tiles;         // ceil(seqlen_q / block_q)
  int32 num_kv_tiles;        // ceil(seqlen_kv / block_kv)
  int32 num_splits;          // shares of a key tile's queries, each a thread block of its own
  int32 num_planes;          // kv heads of all batch elements
  int32 section_planes;      // planes whose tiles alternate
  int32 last_keys_first;     // 1: thread blocks with the last keys begin first, not the first
  int32 last_queries_first;  // 1: each begins with the last queries; path wgmma, like the next
  int32 heads_abreast;       // query heads of a kv head whose tiles alternate
  int32 batch_fastest;       // 1: batch elements of a head follow each other, for they share a bias
  float scale;               // of the scores
  float score_scale;         // multiplies q k^T when the config says scale_first
  float exponent_scale;      // scores to log2 units: log2(e), times the scale unless scale_first
};

}  // namespace attnjit::kernel
