#pragma once
#include "attnjit/types.h"

namespace attnjit::kernel {

// Strides of one tensor, in elements; the feature axis has stride 1.
struct RowStrides {
  int64 batch, head, row;
};

// Run-time arguments of the forward kernel: nothing here needs another compile.
struct ForwardParams {
  const void* q;  // [batch, num_heads_q, seqlen_q, head_dim]
  const void* k;  // [batch, num_heads_q / gqa_ratio, seqlen_kv, head_dim]
  const void* v;  // [batch, num_heads_q / gqa_ratio, seqlen_kv, head_dim_v]
  void* out;      // [batch, num_heads_q, seqlen_q, head_dim_v]
  float* lse;     // [batch, num_heads_q, seqlen_q] or null
  // Splits of the keys, each a thread block of its own; forward/combine.cuh adds them up.
  float* partial_out;  // [row of lse][split][padded head_dim_v], used where num_splits > 1
  float* partial_lse;  // [row of lse][split], as partial_out
  RowStrides q_strides, k_strides, v_strides, out_strides;
  int32 num_heads_q;
  int32 seqlen_q;
  int32 seqlen_kv;
  int32 num_q_tiles;  // ceil(seqlen_q pack_gqa_heads / block_q)
  int32 num_splits;
  int32 num_planes;      // heads (kv heads where the config packs) of all batch elements
  int32 section_planes;  // planes whose row tiles alternate; 1 where num_splits > 1
  float score_scale;     // multiplies q k^T when the config says scale_first
  float exponent_scale;  // scores to log2 units: log2(e), times the scale unless scale_first
};

}  // namespace attnjit::kernel
