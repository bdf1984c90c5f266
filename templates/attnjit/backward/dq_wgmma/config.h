#pragma once
#include "attnjit/backward/params.h"
#include "attnjit/score/score_shape.h"
#include "attnjit/tensor_map.h"
#include "attnjit/types.h"

namespace attnjit::kernel {

// Everything that specialises the Hopper kernel of dq alone, except for its features.
struct DqWgmmaConfig {
  DType dtype;             // of q, k, v, dout and dq: 16 bits wide
  int head_dim;            // columns of q and k, a multiple of 8 up to 256
  int head_dim_v;          // columns of v and dout, a multiple of 8 up to 256
  int gqa_ratio;           // query heads that share one kv head
  bool scale_first;        // scores are scaled, then features add to them, then lse is subtracted
  int k_stages, v_stages;  // tiles of K and of V in their rings, 1 or 2
  int producer_registers;  // of a thread that loads: a multiple of 8 from 24 on

  static constexpr int kMaxSharedBytes = 227 * 1024;
  static constexpr int kControlBytes = 256;  // of barriers and jobs
  static constexpr int min_blocks = 1;       // per SM; setmaxnreg needs the launch bound
  static constexpr int block_q = 128;        // query rows, 64 for each of two warpgroups
  static constexpr int block_kv = 64;        // keys of a tile
  static constexpr bool late = true;         // features read operands where they use them

  ATTNJIT_CONSTEXPR int num_threads() const { return 3 * 128; }
  // Registers of a thread that multiplies: the rest of a launch's after the threads that load.
  ATTNJIT_CONSTEXPR int product_registers() const {
    const int most = (504 - producer_registers) / 16 * 8;
    return most < 240 ? most : 240;
  }

  // Columns in shared memory, whole slabs of 64, and those that products take.
  ATTNJIT_CONSTEXPR int padded_head_dim() const { return round_up(head_dim, 64); }
  ATTNJIT_CONSTEXPR int padded_head_dim_v() const { return round_up(head_dim_v, 64); }
  ATTNJIT_CONSTEXPR int depth() const { return round_up(head_dim, 16); }
  ATTNJIT_CONSTEXPR int depth_v() const { return round_up(head_dim_v, 16); }
  ATTNJIT_CONSTEXPR int query_columns() const { return round_up(head_dim, 32); }

  // The scores of a warp, for features: 16 queries in rows, the keys of a tile in columns.
  ATTNJIT_CONSTEXPR ScoreShape scores() const {
    return {.query_axis = QueryAxis::kRows,
            .row_tiles = 1,
            .groups = block_kv / 8,
            .block_q = block_q,
            .block_kv = block_kv,
            .pack_gqa_heads = 1,
            .gqa_ratio = gqa_ratio,
            .strided_keys = block_kv};
  }

  // Shared memory, in bytes: [Q | dO | stages of K | stages of V | barriers, jobs].
  ATTNJIT_CONSTEXPR int q_bytes() const { return block_q * padded_head_dim() * 2; }
  ATTNJIT_CONSTEXPR int dout_bytes() const { return block_q * padded_head_dim_v() * 2; }
  ATTNJIT_CONSTEXPR int k_bytes() const { return block_kv * padded_head_dim() * 2; }
  ATTNJIT_CONSTEXPR int v_bytes() const { return block_kv * padded_head_dim_v() * 2; }
  ATTNJIT_CONSTEXPR int k_offset() const { return q_bytes() + dout_bytes(); }
  ATTNJIT_CONSTEXPR int v_offset() const { return k_offset() + k_stages * k_bytes(); }
  ATTNJIT_CONSTEXPR int control_offset() const { return v_offset() + v_stages * v_bytes(); }
  ATTNJIT_CONSTEXPR int shared_bytes() const { return control_offset() + kControlBytes; }
};

// The rule that `config` breaks, or nullptr. Architecture limits (shared memory) are the host's.
ATTNJIT_CONSTEXPR const char* why_invalid(const DqWgmmaConfig& config) {
  if (config.dtype == DType::kFloat32) return "dtype must be fp16 or bf16";
  if (config.head_dim < 8 || config.head_dim > 256 || config.head_dim % 8 != 0)
    return "head_dim must be a multiple of 8 from 8 to 256";
  if (config.head_dim_v < 8 || config.head_dim_v > 256 || config.head_dim_v % 8 != 0)
    return "head_dim_v must be a multiple of 8 from 8 to 256";
  if (config.gqa_ratio < 1) return "gqa_ratio must be at least 1";
  if (config.k_stages < 1 || config.k_stages > 2) return "num_stages must be 1 or 2";
  if (config.v_stages < 1 || config.v_stages > 2) return "num_stages must be 1 or 2";
  if (config.producer_registers < 24 || config.producer_registers % 8 != 0)
    return "producer_registers must be a multiple of 8 from 24 on";
  return nullptr;
}

// Run-time arguments of the Hopper kernel of dq.
struct DqWgmmaParams {
  BackwardParams base;
  // Boxes of 64 columns. q and dout: block_q rows. k and v: a tile's rows in StridedKeyOrder.
  // k_tail and v_tail, for a tile with a row past the last multiple of four: a quarter of a tile.
  TensorMap q, dout, k, v, k_tail, v_tail;
};

}  // namespace attnjit::kernel
