#pragma once
#include "attnjit/forward/params.h"
#include "attnjit/forward/plane_order.h"
#include "attnjit/score/score_shape.h"
#include "attnjit/types.h"

namespace attnjit::kernel {

// Everything that specialises the forward kernel for planes of one tile, apart from its features. A
// value of this type is the template argument of the kernel.
struct ForwardSingleTileConfig {
  DType dtype;       // of q, k, v and out: 16 bits wide
  int head_dim;      // columns of q and k, 1 ... 256
  int head_dim_v;    // columns of v and out, 1 ... 256
  int gqa_ratio;     // query heads that share one kv head
  bool aligned;      // q, k, v and out move in 16-byte chunks; else element by element
  bool scale_first;  // scale the scores before the features see them (bias, or scale <= 0)
  int block_q;       // rows of a plane at most: a multiple of 16 up to 256
  int block_kv;      // keys of a plane at most: a multiple of 32 up to 256
  int min_blocks;    // thread blocks per SM that registers are limited for

  static constexpr int kStages = 2;  // planes in shared memory

  // A warp has 16 rows.
  ATTNJIT_CONSTEXPR int num_warps() const { return block_q / 16; }
  ATTNJIT_CONSTEXPR int num_threads() const { return num_warps() * 32; }
  // Keys whose scores a warp holds at a time: all of a short plane.
  ATTNJIT_CONSTEXPR int step_keys() const { return block_kv <= 64 ? block_kv : 32; }
  ATTNJIT_CONSTEXPR int num_steps() const { return block_kv / step_keys(); }
  ATTNJIT_CONSTEXPR int padded_head_dim() const { return round_up(head_dim, 16); }
  ATTNJIT_CONSTEXPR int padded_head_dim_v() const { return round_up(head_dim_v, 16); }

  // The shape that features see of its scores.
  ATTNJIT_CONSTEXPR ScoreShape scores() const {
    return {.query_axis = QueryAxis::kRows,
            .row_tiles = 1,
            .groups = step_keys() / 8,
            .block_q = block_q,
            .block_kv = block_kv,
            .pack_gqa_heads = 1,
            .gqa_ratio = gqa_ratio};
  }

  // Shared memory, in bytes: kStages times [Q | K | V].
  ATTNJIT_CONSTEXPR int q_bytes() const { return block_q * padded_head_dim() * 2; }
  ATTNJIT_CONSTEXPR int k_bytes() const { return block_kv * padded_head_dim() * 2; }
  ATTNJIT_CONSTEXPR int v_bytes() const { return block_kv * padded_head_dim_v() * 2; }
  ATTNJIT_CONSTEXPR int stage_bytes() const { return q_bytes() + k_bytes() + v_bytes(); }
  ATTNJIT_CONSTEXPR int shared_bytes() const { return kStages * stage_bytes(); }
};

// Run-time arguments.
struct ForwardSingleTileParams {
  ForwardParams base;
  PlaneOrder order;
  int32 num_blocks;
};

// The rule that `config` breaks, or nullptr. Architecture limits (shared memory) are the host's.
ATTNJIT_CONSTEXPR const char* why_invalid(const ForwardSingleTileConfig& config) {
  if (config.dtype == DType::kFloat32) return "dtype must be fp16 or bf16";
  if (config.head_dim < 1 || config.head_dim > 256) return "head_dim must be 1 to 256";
  if (config.head_dim_v < 1 || config.head_dim_v > 256) return "head_dim_v must be 1 to 256";
  if (config.gqa_ratio < 1) return "gqa_ratio must be at least 1";
  if (config.aligned && (config.head_dim % 8 != 0 || config.head_dim_v % 8 != 0))
    return "aligned needs head_dim and head_dim_v to be multiples of 8";
  if (config.block_q < 16 || config.block_q > 256 || config.block_q % 16 != 0)
    return "block_q must be a multiple of 16 rows up to 256";
  if (config.block_kv < 32 || config.block_kv > 256 || config.block_kv % 32 != 0)
    return "block_kv must be a multiple of 32 keys up to 256";
  if (config.min_blocks < 1) return "min_blocks must be at least 1";
  return nullptr;
}

}  // namespace attnjit::kernel
