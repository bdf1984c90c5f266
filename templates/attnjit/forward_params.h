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
  RowStrides q_strides, k_strides, v_strides, out_strides;
  int32 num_heads_q;
  int32 seqlen_q;
  int32 seqlen_kv;
  int32 num_q_tiles;     // ceil(seqlen_q / block_q)
  float score_scale;     // multiplies q k^T when the config says scale_first
  float exponent_scale;  // scores to log2 units: log2(e), times the scale unless scale_first
};

// Axis limits of a window around the diagonal; causal is right = 0 without a left limit.
struct BandParams {
  int32 left, right;   // keys before / after the diagonal, used where the config bounds that side
  int32 bottom_right;  // 1: the diagonal ends at the last query and key; 0: it starts at the first
};

// Rows and keys in use per batch element, or null.
struct SeqlensParams {
  const int32* q;   // [batch]
  const int32* kv;  // [batch]
};

// A bias or a per-query mask, read in place. Broadcast axes have stride 0.
struct OperandParams {
  const void* data;
  int64 batch_stride, head_stride, query_stride, key_stride;  // elements
  int32 heads_per_plane;  // query heads that share one plane of the operand
};

// A boolean mask packed to bits, with a class for each tile; written by mask_pack.cuh.
struct PackedMaskParams {
  const uint32* words;   // [plane][row][words_per_row], bit j of word w is key 32 w + j
  const uint8* classes;  // [plane][q tile][kv tile], a TileUse each
  int64 words_per_plane;
  int64 classes_per_plane;
  int32 planes_per_batch;  // 0 if the mask is broadcast over the batch
  int32 heads_per_plane;
  int32 words_per_row;
  int32 num_kv_tiles;
};

}  // namespace attnjit::kernel
