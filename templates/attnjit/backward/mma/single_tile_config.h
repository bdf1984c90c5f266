#pragma once
#include "attnjit/backward/mma/config.h"

namespace attnjit::kernel {

// Results of dS beside dq, dk and dv.
enum class PlaneSums : int {
  kNone = 0,        // nothing
  kStoreDbias = 1,  // dbias, each plane its own
  kDbias = 2,       // dbias, for which planes are reduced
  kOperand = 3,     // the gradient of an operand of the score, the same
};
ATTNJIT_CONSTEXPR bool reduces_planes(PlaneSums sums) {
  return sums == PlaneSums::kDbias || sums == PlaneSums::kOperand;
}

// Everything that specialises the backward kernel for planes of one tile, apart from its features.
// A value of this type is the template argument of the kernel.
struct BackwardSingleTileConfig {
  DType dtype;       // of q, k, v, out and their gradients: 16 bits wide
  int head_dim;      // columns of q and k, 1 ... 256
  int head_dim_v;    // columns of v and out, 1 ... 256
  bool aligned;      // all tensors move in 16-byte chunks; else element by element
  bool scale_first;  // scale the scores before the features see them (bias, or scale <= 0)
  int block_q;       // rows of a plane at most: a multiple of 16 up to 256
  int block_kv;      // keys of a plane at most: a multiple of 32 up to 256
  int num_stages;    // planes in shared memory: 1 or 2
  int min_blocks;    // thread blocks per SM that registers are limited for
  PlaneSums sums;
  bool reads_out;  // computes delta; else a kernel ahead prepares GradientRows

  static constexpr bool late = false;  // as in BackwardMmaConfig

  // The config of the scores that it computes: a warp has 16 rows, and all of their keys. No query
  // heads share a kv head, for its dk and dv are sums over them.
  ATTNJIT_CONSTEXPR BackwardMmaConfig mma() const {
    return {.dtype = dtype,
            .head_dim = head_dim,
            .head_dim_v = head_dim_v,
            .gqa_ratio = 1,
            .aligned = aligned,
            .scale_first = scale_first,
            .adds_dq = false,
            .block_q = block_q,
            .block_kv = block_kv,
            .num_stages = num_stages,
            .num_warps = block_q / 16,
            .query_warps = block_q / 16,
            .min_blocks = min_blocks,
            .late = late,
            .fresh = Fresh::kNone};
  }
  ATTNJIT_CONSTEXPR int num_threads() const { return 2 * block_q; }
  ATTNJIT_CONSTEXPR float probability_scale() const { return kernel::probability_scale(dtype); }
  ATTNJIT_CONSTEXPR ScoreShape scores() const { return mma().scores(); }

  // Shared memory, in bytes: num_stages times [Q | dO | K | V | lse and delta | O], P, dS.
  ATTNJIT_CONSTEXPR int inputs_bytes() const { return mma().dbias_shared_bytes() / num_stages; }
  ATTNJIT_CONSTEXPR int stage_bytes() const {
    return inputs_bytes() + (reads_out ? mma().dout_bytes() : 0);
  }
  ATTNJIT_CONSTEXPR int shared_bytes() const {
    return num_stages * stage_bytes() + 2 * mma().scores_bytes();
  }
};

// Run-time arguments.
struct BackwardSingleTileParams {
  BackwardParams base;
  // Of a config that reads_out.
  const void* out;    // as q, head_dim_v wide
  const float* lse;   // [batch, num_heads_q, seqlen_q]
  const float* dlse;  // the same, or null
  RowStrides out_strides;
};

// The rule that `config` breaks, or nullptr. Architecture limits (shared memory) are the host's.
ATTNJIT_CONSTEXPR const char* why_invalid(const BackwardSingleTileConfig& config) {
  if (config.block_q < 16 || config.block_q > 256 || config.block_q % 16 != 0)
    return "block_q must be a multiple of 16 rows up to 256";
  if (config.block_kv > 256) return "block_kv must be at most 256 keys";
  return why_no_scores(config.mma());
}

}  // namespace attnjit::kernel
