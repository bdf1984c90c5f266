#pragma once
#include "attnjit/backward/mma/config.h"

namespace attnjit::kernel {

// Everything that specialises the backward kernels for a bias that batch elements share, apart from
// their features: of dq and dbias, and of dk and dv. A value of this type is the template argument
// of the kernel.
//
// A thread block keeps the bias of a strip: of queries and all keys, or of keys and all queries.
struct BackwardSharedBiasConfig {
  DType dtype;        // of q, k, v and their gradients: 16 bits wide
  int head_dim;       // columns of q and k, a multiple of 8 up to 64
  int head_dim_v;     // columns of v and dout, the same
  bool keys_at_rest;  // dk and dv of a strip of keys; else dq and dbias of a strip of queries
  int block_q;        // of the strip, 32 or 64; of a plane at most where keys are at rest
  int block_kv;       // the other way round
  int num_stages;     // planes in shared memory: 1 or 2

  static constexpr int num_warps = 8;  // that compute
  static constexpr int row_tiles = 2, min_blocks = 1;
  static constexpr bool scale_first = true;  // of kernels with a bias
  static constexpr bool late = false;        // as in BackwardMmaConfig

  // Where keys are at rest others load, and threads have 168 registers. Sums of dbias need more:
  // there the same warps load.
  ATTNJIT_CONSTEXPR int load_warps() const { return keys_at_rest ? 4 : 0; }
  ATTNJIT_CONSTEXPR int num_threads() const { return 32 * (num_warps + load_warps()); }
  ATTNJIT_CONSTEXPR float probability_scale() const { return kernel::probability_scale(dtype); }
  // Rows of the strip, and columns. A warp has 32 rows, two tiles for which it reads each operand
  // once, and a share of the columns, a span of 32 at a time.
  ATTNJIT_CONSTEXPR int rows() const { return keys_at_rest ? block_kv : block_q; }
  ATTNJIT_CONSTEXPR int columns() const { return keys_at_rest ? block_q : block_kv; }
  ATTNJIT_CONSTEXPR int row_warps() const { return rows() / (16 * row_tiles); }
  ATTNJIT_CONSTEXPR int column_warps() const { return num_warps / row_warps(); }
  ATTNJIT_CONSTEXPR int warp_columns() const { return columns() / column_warps(); }
  ATTNJIT_CONSTEXPR int spans() const { return warp_columns() / 32; }

  // The tiles that it loads, and the scores of the kernel of dq and dbias.
  ATTNJIT_CONSTEXPR BackwardMmaConfig mma() const {
    return {.dtype = dtype,
            .head_dim = head_dim,
            .head_dim_v = head_dim_v,
            .gqa_ratio = 1,
            .aligned = true,
            .scale_first = scale_first,
            .adds_dq = false,
            .block_q = block_q,
            .block_kv = block_kv,
            .num_stages = num_stages,
            .num_warps = num_warps,
            .query_warps = keys_at_rest ? column_warps() : row_warps(),
            .min_blocks = min_blocks,
            .late = late,
            .fresh = Fresh::kNone};
  }
  // The shape that features see of the scores of a span; of keys one row tile at a time.
  ATTNJIT_CONSTEXPR ScoreShape scores() const {
    ScoreShape shape = mma().scores();
    shape.query_axis = keys_at_rest ? QueryAxis::kColumns : QueryAxis::kRows;
    shape.row_tiles = keys_at_rest ? 1 : row_tiles;
    return shape;
  }

  // Sizes in shared memory, in bytes: [stages of [Q | dO | K | V | lse and delta, at last the sums
  // that warps exchange | bits of kept keys] | bias].
  ATTNJIT_CONSTEXPR int tiles_bytes() const { return mma().dbias_shared_bytes() / num_stages; }
  ATTNJIT_CONSTEXPR int exchange_bytes() const {
    const int columns = mma().padded_head_dim() + (keys_at_rest ? mma().padded_head_dim_v() : 0);
    return num_warps * 16 * row_tiles * columns * 4;
  }
  ATTNJIT_CONSTEXPR int kept_begin() const {
    return tiles_bytes() > exchange_bytes() ? tiles_bytes() : exchange_bytes();
  }
  ATTNJIT_CONSTEXPR int stage_bytes() const { return kept_begin() + 128; }
  ATTNJIT_CONSTEXPR int bias_bytes() const { return rows() * columns() * 4; }
  ATTNJIT_CONSTEXPR int shared_bytes() const { return num_stages * stage_bytes() + bias_bytes(); }
};

// The rule that `config` breaks, or nullptr. Architecture limits (shared memory) are the host's.
ATTNJIT_CONSTEXPR const char* why_invalid(const BackwardSharedBiasConfig& config) {
  const int columns = config.mma().padded_head_dim(), columns_v = config.mma().padded_head_dim_v();
  if ((columns & (columns - 1)) != 0 || (columns_v & (columns_v - 1)) != 0 || columns > 64 ||
      columns_v > 64)
    return "head_dim and head_dim_v must fill 16, 32 or 64 columns";
  if (config.rows() != 32 && config.rows() != 64) return "strips must have 32 or 64 rows";
  if (config.columns() > 1024 || config.columns() < 32 ||
      config.columns() % (32 * config.column_warps()) != 0)
    return "strips must have a multiple of 128 columns, or of 256 with 32 rows";
  return why_no_scores(config.mma());
}

}  // namespace attnjit::kernel
