#pragma once
#include "attnjit/backward/wgmma_params.h"
#include "attnjit/score/score_shape.h"
#include "attnjit/types.h"

namespace attnjit::kernel {

// The order in which tiles of keys add to dq of a tile of queries. Tiles that only a mask empties
// count.
enum class DqOrder : int {
  kAny = 0,          // sums are zeroed before, and all tiles add to them
  kFirstStores = 1,  // the first keys store, others add after them
  kKeys = 2,         // the first keys store, others add one after another, so that bits do not vary
};

// Everything that specialises the Hopper kernel of dk, dv and dq, except for its features.
struct DkvWgmmaConfig {
  DType dtype;       // of q, k, v, dout and the gradients: 16 bits wide
  int head_dim;      // columns of q and k, a multiple of 8 up to 128
  int head_dim_v;    // columns of v and dout, a multiple of 8 up to 128
  int gqa_ratio;     // query heads that share one kv head
  bool scale_first;  // scores are scaled, then features add to them, then lse is subtracted
  bool any_scale;    // the scale may be 0 or negative, so that masks come after it
  bool bias_tiles;   // a bias with rows of its own comes in tiles
  DqOrder dq_order;
  bool owns_kv_head;  // a thread block takes all keys of a kv head, and so has dq to itself
  bool shares_work;   // thread blocks take tiles of keys from a counter; else each has one
  int key_parts;      // 2: each warpgroup leaves out tiles that drop all of its keys; else 1
  int block_q;        // query rows of a tile, 64 or 128
  int num_stages;     // tiles of Q and dO in the ring
  // Registers of a thread that loads, and of one that adds dq up: multiples of 8 from 24 on.
  int producer_registers, dq_registers;

  static constexpr int kMaxSharedBytes = 227 * 1024;
  static constexpr int kControlBytes = 320;  // of barriers, jobs and work tiles
  static constexpr int min_blocks = 1;       // per SM; setmaxnreg needs the launch bound
  static constexpr int block_kv = 128;       // keys of a tile, 64 for each of two warpgroups
  static constexpr bool late = false;        // features read operands before scores are computed

  ATTNJIT_CONSTEXPR int num_threads() const { return 4 * 128; }
  // Whether a thread block computes several work tiles.
  ATTNJIT_CONSTEXPR bool loops_over_work() const { return shares_work || owns_kv_head; }
  // Whether every tile of keys that the queries of a tile may see is visited, even if a mask
  // empties it, so that the first and the last tile of dq are known.
  ATTNJIT_CONSTEXPR bool walks_all() const { return orders_dq() || owns_kv_head; }
  // Whether work tiles of all keys take the first share of the queries, then the next one.
  ATTNJIT_CONSTEXPR bool splits_last() const { return key_parts > 1 && shares_work; }
  // Tiles of dS on their way to the warpgroup of dq, of both warpgroups that have keys or, with
  // key_parts, of each. With one each there is room for a third stage.
  ATTNJIT_CONSTEXPR int num_slots() const { return key_parts > 1 ? 1 : 2; }
  // Whether thread blocks add to dq in an order.
  ATTNJIT_CONSTEXPR bool orders_dq() const { return dq_order != DqOrder::kAny; }
  // Registers of a thread that has keys: the rest of an SM's 512 per four threads.
  ATTNJIT_CONSTEXPR int key_registers() const {
    const int most = (512 - producer_registers - dq_registers) / 16 * 8;
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

  // Shared memory, in bytes: [K, of two work tiles if there is room | V | stages of Q and dO |
  // tiles of dS | stages of biases | of rows: bf16x3, then lse | sums in fp32 | barriers, jobs,
  // work tiles]. compute-sanitizer counts the bf16x3 of a row twice, because wgmma reads it twice:
  // something has to follow it.
  ATTNJIT_CONSTEXPR int k_bytes() const { return block_kv * padded_head_dim() * 2; }
  ATTNJIT_CONSTEXPR int v_bytes() const { return block_kv * padded_head_dim_v() * 2; }
  ATTNJIT_CONSTEXPR int q_bytes() const { return block_q * padded_head_dim() * 2; }
  ATTNJIT_CONSTEXPR int dout_bytes() const { return block_q * padded_head_dim_v() * 2; }
  ATTNJIT_CONSTEXPR int ds_bytes() const { return block_q * block_kv * 2; }
  // Buffers of 64 by 64 sums in fp32 on their way to global memory: one for each slab of a tile of
  // dq, at least two.
  static constexpr int kSumBytes = 64 * 64 * 4;
  ATTNJIT_CONSTEXPR int num_sums() const {
    const int of_dq = block_q / 64 * (padded_head_dim() / 64);
    return of_dq < 2 ? 2 : of_dq;
  }
  ATTNJIT_CONSTEXPR int bias_bytes() const { return bias_tiles ? block_q * block_kv * 2 : 0; }
  ATTNJIT_CONSTEXPR int bf16x3_bytes() const { return block_q * kRowBf16x3Bytes; }
  ATTNJIT_CONSTEXPR int lse_bytes() const { return scale_first ? block_q * 4 : 0; }
  ATTNJIT_CONSTEXPR int rows_bytes() const { return bf16x3_bytes() + lse_bytes(); }
  ATTNJIT_CONSTEXPR int k_buffers() const {
    const int stage = q_bytes() + dout_bytes() + bias_bytes() + rows_bytes();
    const int others = v_bytes() + num_stages * stage + num_slots() * ds_bytes() +
                       num_sums() * kSumBytes + kControlBytes;
    return loops_over_work() && 2 * k_bytes() + others <= kMaxSharedBytes ? 2 : 1;
  }
  ATTNJIT_CONSTEXPR int stages_offset() const { return k_buffers() * k_bytes() + v_bytes(); }
  ATTNJIT_CONSTEXPR int ds_offset() const {
    return stages_offset() + num_stages * (q_bytes() + dout_bytes());
  }
  ATTNJIT_CONSTEXPR int bias_offset() const { return ds_offset() + num_slots() * ds_bytes(); }
  ATTNJIT_CONSTEXPR int rows_offset() const { return bias_offset() + num_stages * bias_bytes(); }
  ATTNJIT_CONSTEXPR int sums_offset() const { return rows_offset() + num_stages * rows_bytes(); }
  ATTNJIT_CONSTEXPR int control_offset() const { return sums_offset() + num_sums() * kSumBytes; }
  ATTNJIT_CONSTEXPR int shared_bytes() const { return control_offset() + kControlBytes; }
  // Of a thread that has keys: dk, dv, scores, and probabilities and dS as operands.
  ATTNJIT_CONSTEXPR int fragment_registers() const {
    return (key_columns() + value_columns()) / 2 + block_q;
  }
  // Whether there is room for probabilities in fp32 until dP is complete, in addition to dP and to
  // the operand of rounded probabilities.
  ATTNJIT_CONSTEXPR bool keeps_floats() const {
    return (key_columns() + value_columns()) / 2 + block_q + block_q / 4 <= 176;
  }
};

// The rule that `config` breaks, or nullptr. Architecture limits (shared memory) are the host's.
ATTNJIT_CONSTEXPR const char* why_invalid(const DkvWgmmaConfig& config) {
  if (config.dtype == DType::kFloat32) return "dtype must be fp16 or bf16";
  if (config.head_dim < 8 || config.head_dim > 128 || config.head_dim % 8 != 0)
    return "head_dim must be a multiple of 8 from 8 to 128";
  if (config.head_dim_v < 8 || config.head_dim_v > 128 || config.head_dim_v % 8 != 0)
    return "head_dim_v must be a multiple of 8 from 8 to 128";
  if (config.gqa_ratio < 1) return "gqa_ratio must be at least 1";
  if (config.block_q != 64 && config.block_q != 128) return "block_q must be 64 or 128";
  if (config.num_stages != 2 && config.num_stages != 3) return "num_stages must be 2 or 3";
  if (config.producer_registers < 24 || config.producer_registers % 8 != 0)
    return "producer_registers must be a multiple of 8 from 24 on";
  if (config.dq_registers < 24 || config.dq_registers % 8 != 0)
    return "dq_registers must be a multiple of 8 from 24 on";
  if (config.orders_dq() && config.owns_kv_head)
    return "dq_order must be kAny where a thread block owns a kv head";
  if (config.key_parts != 1 && config.key_parts != 2) return "key_parts must be 1 or 2";
  if (config.key_parts != 1 && config.walks_all())
    return "key_parts must be 1 where all tiles of queries are visited";
  if (config.shares_work && config.owns_kv_head)
    return "shares_work must be false where a thread block owns a kv head";
  if (config.fragment_registers() > 192)
    return "block_q, head_dim and head_dim_v need more registers than a thread has";
  return nullptr;
}

}  // namespace attnjit::kernel
