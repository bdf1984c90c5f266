#pragma once
#include "attnjit/forward/softmax_policy.h"
#include "attnjit/score/score_shape.h"
#include "attnjit/types.h"

namespace attnjit::kernel {

// Everything that specialises the portable forward kernel, except for its features. A value of this
// type is the template argument of the kernel.
struct ForwardMmaConfig {
  DType dtype;       // of q, k, v and out: 16 bits wide
  int head_dim;      // columns of q and k, 1 ... 256
  int head_dim_v;    // columns of v and out, 1 ... 256
  int gqa_ratio;     // query heads that share one kv head
  bool aligned;      // q, k, v and out move in 16-byte vectors; else element by element
  bool scale_first;  // scale the scores before the features see them (bias, or scale <= 0)
  bool pack_gqa;     // rows are the query heads of a kv head, query by query: for short queries
  int block_q;       // query rows of a thread block
  int block_kv;      // keys of a tile
  int num_stages;    // K/V buffers: 1 = K and V alternate, >= 2 = a ring of tiles
  int num_warps;
  int min_blocks;  // thread blocks per SM that registers are limited for
  SoftmaxPolicy softmax;

  ATTNJIT_CONSTEXPR int num_threads() const { return num_warps * 32; }
  // The matrix instruction takes 16 columns of q and k at a time; v is padded alike for simplicity.
  ATTNJIT_CONSTEXPR int padded_head_dim() const { return round_up(head_dim, 16); }
  ATTNJIT_CONSTEXPR int padded_head_dim_v() const { return round_up(head_dim_v, 16); }
  // Query heads that share a thread block: row r is head r % pack_gqa_heads() of query
  // r / pack_gqa_heads().
  ATTNJIT_CONSTEXPR int pack_gqa_heads() const { return pack_gqa ? gqa_ratio : 1; }
  // 16-row fragments that one warp owns.
  ATTNJIT_CONSTEXPR int row_tiles() const { return block_q / (16 * num_warps); }

  // The shape that features see of its scores.
  ATTNJIT_CONSTEXPR ScoreShape scores() const {
    return {.query_axis = QueryAxis::kRows,
            .row_tiles = row_tiles(),
            .groups = block_kv / 8,
            .block_q = block_q,
            .block_kv = block_kv,
            .pack_gqa_heads = pack_gqa_heads(),
            .gqa_ratio = gqa_ratio};
  }

  // Shared memory, in bytes: [Q, later O][K x stages][V x stages].
  ATTNJIT_CONSTEXPR int q_bytes() const { return block_q * padded_head_dim() * 2; }
  ATTNJIT_CONSTEXPR int out_bytes() const { return block_q * padded_head_dim_v() * 2; }
  ATTNJIT_CONSTEXPR int q_region_bytes() const {
    return q_bytes() > out_bytes() ? q_bytes() : out_bytes();
  }
  ATTNJIT_CONSTEXPR int k_bytes() const { return block_kv * padded_head_dim() * 2; }
  ATTNJIT_CONSTEXPR int v_bytes() const { return block_kv * padded_head_dim_v() * 2; }
  ATTNJIT_CONSTEXPR int shared_bytes() const {
    return q_region_bytes() + num_stages * (k_bytes() + v_bytes());
  }
};

// The rule that `config` breaks, or nullptr. Architecture limits (shared memory) are the host's.
ATTNJIT_CONSTEXPR const char* why_invalid(const ForwardMmaConfig& config) {
  if (config.dtype == DType::kFloat32) return "dtype must be fp16 or bf16";
  if (config.head_dim < 1 || config.head_dim > 256) return "head_dim must be 1 to 256";
  if (config.head_dim_v < 1 || config.head_dim_v > 256) return "head_dim_v must be 1 to 256";
  if (config.gqa_ratio < 1) return "gqa_ratio must be at least 1";
  if (config.aligned && (config.head_dim % 8 != 0 || config.head_dim_v % 8 != 0))
    return "aligned needs head_dim and head_dim_v to be multiples of 8";
  if (config.pack_gqa && config.gqa_ratio == 1) return "pack_gqa needs a gqa_ratio above 1";
  if (config.num_warps < 1 || config.num_warps > 16) return "num_warps must be 1 to 16";
  if (config.block_q < 1 || config.block_q % (16 * config.num_warps) != 0)
    return "block_q must be a multiple of 16 rows per warp";
  if (config.block_kv < 32 || config.block_kv % 32 != 0)
    return "block_kv must be a multiple of 32 keys";
  if (config.num_stages < 1 || config.num_stages > 4) return "num_stages must be 1 to 4";
  if (config.min_blocks < 1) return "min_blocks must be at least 1";
  return nullptr;
}

}  // namespace attnjit::kernel
