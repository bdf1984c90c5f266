#pragma once
#include "attnjit/backward/params.h"
#include "attnjit/score/score_shape.h"
#include "attnjit/types.h"

namespace attnjit::kernel {

// Values that are computed anew for each tile of queries, to save registers: values that follow
// from the base of shared memory, from the number of the warp (both only in the kernel of dk and
// dv), and from the number of the thread, for copies.
enum class Fresh {
  kNone = 0,
  kShared = 1,
  kWarp = 2,
  kSharedWarp = 3,
  kThread = 4,
  kSharedThread = 5,
  kWarpThread = 6,
  kSharedWarpThread = 7,
};

// Everything that specialises a kernel of the backward that computes scores, except for its
// features. The kernels of dk and dv, of dq and of dbias each have their own config.
struct BackwardMmaConfig {
  DType dtype;       // of q, k, v, out and their gradients: 16 bits wide
  int head_dim;      // columns of q and k, 1 ... 256
  int head_dim_v;    // columns of v and out, 1 ... 256
  int gqa_ratio;     // query heads that share one kv head
  bool aligned;      // all tensors move in 16-byte vectors; else element by element
  bool scale_first;  // scale the scores before the features see them (bias, or scale <= 0)
  bool adds_dq;      // dq is added up in fp32 by the kernel of dk and dv
  int block_q;       // query rows of a tile
  int block_kv;      // keys of a tile
  int num_stages;    // buffers of what is streamed: 1 or 2
  int num_warps;
  int query_warps;  // along the queries of a tile of scores; the others lie along its keys, 32
                    // each at least, and rest where there are fewer
  int min_blocks;   // thread blocks per SM that registers are limited for
  bool late;        // bias and mask are read where they are used, to save registers; else before
                    // the scores are computed, to arrive meanwhile
  Fresh fresh;

  ATTNJIT_CONSTEXPR bool refreshes(Fresh operand) const {
    return (static_cast<int>(fresh) & static_cast<int>(operand)) != 0;
  }
  ATTNJIT_CONSTEXPR int num_threads() const { return num_warps * 32; }
  ATTNJIT_CONSTEXPR float probability_scale() const { return kernel::probability_scale(dtype); }
  ATTNJIT_CONSTEXPR int padded_head_dim() const { return round_up(head_dim, 16); }
  ATTNJIT_CONSTEXPR int padded_head_dim_v() const { return round_up(head_dim_v, 16); }
  // The share of a tile of scores that one warp computes.
  ATTNJIT_CONSTEXPR int key_warps() const {
    const int most = block_kv / 32;
    return num_warps / query_warps < most ? num_warps / query_warps : most;
  }
  ATTNJIT_CONSTEXPR int score_warps() const { return query_warps * key_warps(); }
  ATTNJIT_CONSTEXPR int warp_queries() const { return block_q / query_warps; }
  ATTNJIT_CONSTEXPR int warp_keys() const { return block_kv / key_warps(); }
  // The shape that features see of the scores that a warp computes at a time: 32 keys of its
  // queries.
  ATTNJIT_CONSTEXPR ScoreShape scores() const {
    return {.query_axis = QueryAxis::kRows,
            .row_tiles = warp_queries() / 16,
            .groups = 4,
            .block_q = block_q,
            .block_kv = block_kv,
            .pack_gqa_heads = 1,
            .gqa_ratio = gqa_ratio};
  }
  // Whether half of the warps have no scores: they add the tile's share of dq to its sums while the
  // others compute the scores of the next tile.
  ATTNJIT_CONSTEXPR bool defers_dq() const { return adds_dq && 2 * score_warps() == num_warps; }
  ATTNJIT_CONSTEXPR int dq_warps() const { return defers_dq() ? score_warps() : num_warps; }
  // Rows of a product of `rows` rows that each of `warps` computes: 32 or 16, whichever suffices
  // for all rows; 0 where neither does. The other warps take shares of its columns.
  ATTNJIT_CONSTEXPR static int product_rows(int rows, int warps) {
    return warps % (rows / 32) == 0 ? 32 : warps % (rows / 16) == 0 ? 16 : 0;
  }

  // Sizes in shared memory, in bytes.
  ATTNJIT_CONSTEXPR int q_bytes() const { return block_q * padded_head_dim() * 2; }
  ATTNJIT_CONSTEXPR int dout_bytes() const { return block_q * padded_head_dim_v() * 2; }
  ATTNJIT_CONSTEXPR int k_bytes() const { return block_kv * padded_head_dim() * 2; }
  ATTNJIT_CONSTEXPR int v_bytes() const { return block_kv * padded_head_dim_v() * 2; }
  ATTNJIT_CONSTEXPR int scores_bytes() const { return block_q * block_kv * 2; }
  ATTNJIT_CONSTEXPR int rows_bytes() const { return 2 * block_q * 4; }  // lse and delta
  // Of the kernel of dk and dv: [K | V | stages of Q and dO | P | dS, two where dq is deferred |
  // stages of rows].
  ATTNJIT_CONSTEXPR int shared_bytes() const {
    return k_bytes() + v_bytes() + num_stages * (q_bytes() + dout_bytes() + rows_bytes()) +
           (defers_dq() ? 3 : 2) * scores_bytes();
  }
  // Of the kernel of dq: [Q, at the end dQ | dO | stages of K and V | rows].
  ATTNJIT_CONSTEXPR int dq_shared_bytes() const {
    return q_bytes() + dout_bytes() + num_stages * (k_bytes() + v_bytes()) + rows_bytes();
  }
  // Of the kernel of dbias: [stages of Q, dO, K, V and rows].
  ATTNJIT_CONSTEXPR int dbias_shared_bytes() const {
    return num_stages * (q_bytes() + dout_bytes() + k_bytes() + v_bytes() + rows_bytes());
  }
  // Of the kernel of an operand's gradient: the same, or in the end a tile of sums in fp32.
  ATTNJIT_CONSTEXPR int operand_shared_bytes() const {
    const int sums = block_q * (block_kv + 1) * 4;
    return dbias_shared_bytes() > sums ? dbias_shared_bytes() : sums;
  }
};

// The rule of scores that `config` breaks, or nullptr.
ATTNJIT_CONSTEXPR const char* why_no_scores(const BackwardMmaConfig& config) {
  if (config.dtype == DType::kFloat32) return "dtype must be fp16 or bf16";
  if (config.head_dim < 1 || config.head_dim > 256) return "head_dim must be 1 to 256";
  if (config.head_dim_v < 1 || config.head_dim_v > 256) return "head_dim_v must be 1 to 256";
  if (config.gqa_ratio < 1) return "gqa_ratio must be at least 1";
  if (config.aligned && (config.head_dim % 8 != 0 || config.head_dim_v % 8 != 0))
    return "aligned needs head_dim and head_dim_v to be multiples of 8";
  if (config.num_warps < 1 || config.num_warps > 16) return "num_warps must be 1 to 16";
  if (config.query_warps < 1 || config.num_warps % config.query_warps != 0)
    return "query_warps must divide num_warps";
  if (config.block_kv < 32 || config.block_kv % 32 != 0)
    return "block_kv must be a multiple of 32 keys";
  if (config.block_q % (16 * config.query_warps) != 0)
    return "block_q must be a multiple of 16 rows per warp";
  if (config.block_kv % (32 * config.key_warps()) != 0)
    return "block_kv must be a multiple of 32 keys per warp";
  if (config.num_stages < 1 || config.num_stages > 2) return "num_stages must be 1 or 2";
  if (config.min_blocks < 1) return "min_blocks must be at least 1";
  return nullptr;
}

// The rule that `config` breaks, or nullptr. Architecture limits (shared memory) are the host's.
ATTNJIT_CONSTEXPR const char* why_invalid(const BackwardMmaConfig& config) {
  if (const char* rule = why_no_scores(config)) return rule;
  if (config.block_q != 32 && config.block_q != 64 && config.block_q != 128)
    return "block_q must be 32, 64 or 128 queries";
  if (config.product_rows(config.block_q, config.dq_warps()) == 0 ||
      config.product_rows(config.block_kv, config.num_warps) == 0)
    return "num_warps must be a multiple of block_q / 32 and of block_kv / 32";
  return nullptr;
}

}  // namespace attnjit::kernel
