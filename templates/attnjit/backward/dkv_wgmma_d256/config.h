#pragma once
#include "attnjit/backward/wgmma_params.h"
#include "attnjit/score/score_shape.h"
#include "attnjit/types.h"

namespace attnjit::kernel {

// Everything that specialises the Hopper kernel of dk and dv for head_dim above 128, except for its
// features.
struct DkvWgmmaD256Config {
  DType dtype;             // of q, k, v, dout and the gradients: 16 bits wide
  int head_dim;            // columns of q and k, a multiple of 8 up to 256
  int head_dim_v;          // columns of v and dout, a multiple of 8 up to 256
  int gqa_ratio;           // query heads that share one kv head
  bool scale_first;        // scores are scaled, then features add to them, then lse is subtracted
  bool bias_tiles;         // a bias with rows of its own comes in tiles
  int num_stages;          // tiles of Q, and of dO, in their rings
  int producer_registers;  // of a thread that loads: a multiple of 8 from 24 on

  static constexpr int kMaxSharedBytes = 227 * 1024;
  static constexpr int kControlBytes = 256;  // of barriers and jobs
  static constexpr int min_blocks = 1;       // per SM; setmaxnreg needs the launch bound
  static constexpr int block_q = 64;         // query rows of a tile
  static constexpr int block_kv = 64;        // keys of a tile
  static constexpr bool late = false;        // features read operands before scores are computed
  static constexpr int key_parts = 1;        // that tiles are looked up by

  // dq has its own kernel: no thread block waits for additions of another.
  ATTNJIT_CONSTEXPR bool walks_all() const { return false; }
  ATTNJIT_CONSTEXPR int num_threads() const { return 3 * 128; }
  // Registers of a thread that multiplies: the rest of a launch's after the threads that load.
  ATTNJIT_CONSTEXPR int product_registers() const {
    const int most = (504 - producer_registers) / 16 * 8;
    return most < 240 ? most : 240;
  }
  ATTNJIT_CONSTEXPR float probability_scale() const { return kernel::probability_scale(dtype); }

  // Columns in shared memory, whole slabs of 64, and those that products take.
  ATTNJIT_CONSTEXPR int padded_head_dim() const { return round_up(head_dim, 64); }
  ATTNJIT_CONSTEXPR int padded_head_dim_v() const { return round_up(head_dim_v, 64); }
  ATTNJIT_CONSTEXPR int depth() const { return round_up(head_dim, 16); }
  ATTNJIT_CONSTEXPR int depth_v() const { return round_up(head_dim_v, 16); }
  ATTNJIT_CONSTEXPR int key_columns() const { return round_up(head_dim, 32); }
  ATTNJIT_CONSTEXPR int value_columns() const { return round_up(head_dim_v, 32); }

  // The scores of a warp, for features: 16 keys in rows, the queries of the tile in columns.
  ATTNJIT_CONSTEXPR ScoreShape scores() const {
    return {.query_axis = QueryAxis::kColumns,
            .row_tiles = 1,
            .groups = block_q / 8,
            .block_q = block_q,
            .block_kv = block_kv,
            .pack_gqa_heads = 1,
            .gqa_ratio = gqa_ratio};
  }

  // Shared memory, in bytes: [K | V | stages of Q | of dO | of P | of biases | of rows: lse, then
  // delta | barriers, jobs].
  ATTNJIT_CONSTEXPR int k_bytes() const { return block_kv * padded_head_dim() * 2; }
  ATTNJIT_CONSTEXPR int v_bytes() const { return block_kv * padded_head_dim_v() * 2; }
  ATTNJIT_CONSTEXPR int q_bytes() const { return block_q * padded_head_dim() * 2; }
  ATTNJIT_CONSTEXPR int dout_bytes() const { return block_q * padded_head_dim_v() * 2; }
  // P, rounded, and where there is room the bits that rounding drops.
  ATTNJIT_CONSTEXPR bool keeps_residuals() const {
    const int stage =
        q_bytes() + dout_bytes() + block_q * block_kv * 3 + bias_bytes() + 2 * row_bytes();
    return k_bytes() + v_bytes() + num_stages * stage + kControlBytes <= kMaxSharedBytes;
  }
  ATTNJIT_CONSTEXPR int p_bytes() const { return block_q * block_kv * (keeps_residuals() ? 3 : 2); }
  ATTNJIT_CONSTEXPR int bias_bytes() const { return bias_tiles ? block_q * block_kv * 2 : 0; }
  ATTNJIT_CONSTEXPR int row_bytes() const { return block_q * 4; }  // of lse, and of delta
  ATTNJIT_CONSTEXPR int q_offset() const { return k_bytes() + v_bytes(); }
  ATTNJIT_CONSTEXPR int dout_offset() const { return q_offset() + num_stages * q_bytes(); }
  ATTNJIT_CONSTEXPR int p_offset() const { return dout_offset() + num_stages * dout_bytes(); }
  ATTNJIT_CONSTEXPR int bias_offset() const { return p_offset() + num_stages * p_bytes(); }
  ATTNJIT_CONSTEXPR int rows_offset() const { return bias_offset() + num_stages * bias_bytes(); }
  ATTNJIT_CONSTEXPR int control_offset() const {
    return rows_offset() + num_stages * 2 * row_bytes();
  }
  ATTNJIT_CONSTEXPR int shared_bytes() const { return control_offset() + kControlBytes; }
};

// The rule that `config` breaks, or nullptr. Architecture limits (shared memory) are the host's.
ATTNJIT_CONSTEXPR const char* why_invalid(const DkvWgmmaD256Config& config) {
  if (config.dtype == DType::kFloat32) return "dtype must be fp16 or bf16";
  if (config.head_dim < 8 || config.head_dim > 256 || config.head_dim % 8 != 0)
    return "head_dim must be a multiple of 8 from 8 to 256";
  if (config.head_dim_v < 8 || config.head_dim_v > 256 || config.head_dim_v % 8 != 0)
    return "head_dim_v must be a multiple of 8 from 8 to 256";
  if (config.gqa_ratio < 1) return "gqa_ratio must be at least 1";
  if (config.num_stages != 2 && config.num_stages != 3) return "num_stages must be 2 or 3";
  if (config.producer_registers < 24 || config.producer_registers % 8 != 0)
    return "producer_registers must be a multiple of 8 from 24 on";
  return nullptr;
}

}  // namespace attnjit::kernel
