#pragma once
#include "attnjit/backward/params.h"
#include "attnjit/packed_rows.h"
#include "attnjit/score/batch_groups_params.h"
#include "attnjit/score/operand_params.h"
#include "attnjit/score/sink_params.h"

namespace attnjit::kernel {

// Specialises the kernel that prepares the rows of the backward.
struct BackwardPreprocessConfig {
  DType dtype;  // of out and dout
  int head_dim_v;
  bool aligned;    // rows of out and dout move in 16-byte vectors
  bool bf16x3;     // writes row_bf16x3
  int dq_columns;  // of dq, where that of dead rows is written here; else 0
  bool sink;       // heads have sinks
  DType sink_dtype;
  bool row_mask;  // a mask is the same for all keys of a row
  bool row_bias;  // so is a bias
  DType bias_dtype;
  bool packed;  // rows are those of packed sequences

  ATTNJIT_CONSTEXPR int num_threads() const { return 256; }
  // Lanes that share a row, eight columns each at a time.
  ATTNJIT_CONSTEXPR int row_lanes() const {
    int lanes = 1;
    while (lanes < 32 && lanes * 8 < head_dim_v) lanes *= 2;
    return lanes;
  }
};

struct BackwardPreprocessParams {
  const void* out;    // [batch, num_heads_q, seqlen_q, head_dim_v]
  const void* dout;   // of the same shape
  const float* lse;   // [batch, num_heads_q, seqlen_q]
  const float* dlse;  // of the same shape, or null
  GradientRows rows;  // of all planes; padded rows are written too, as dead ones
  SinkParams sink;
  Grouped<OperandParams> row_mask;
  int32 operand_queries;  // of mask and bias; rows of a packed sequence past them are dropped
  // [batch][query head][padded row], or null: what dS of a live row sums to, else 0; and what a row
  // adds to dsink.
  float *ds_rows, *dsink_rows;
  float* sums;        // memory to be set to zero, 16-byte aligned
  int64 sum_vectors;  // of 16 bytes
  RowStrides out_strides, dout_strides;
  int32 num_heads_q;
  int32 seqlen_q;
  int32 num_row_blocks;  // ceil(seqlen_q / kRowBlock), or the tiles of packed sequences
  int32 num_blocks;      // of the launch
  uint32* row_bf16x3;    // kRowBf16x3Bytes a row, see backward/params.h
  float inverse_scale;   // 1 / scale of the scores; 0 where the rows have no lse
  PackedRows packed;
  void* dq;  // [batch, num_heads_q, seqlen_q, dq_columns], used where dq_columns > 0
  RowStrides dq_strides;
  Grouped<OperandParams> row_bias;
};

}  // namespace attnjit::kernel
