#pragma once
#include "attnjit/forward/params.h"
#include "attnjit/forward/wgmma/schedule.h"
#include "attnjit/score/score_shape.h"
#include "attnjit/tensor_map.h"
#include "attnjit/types.h"

namespace attnjit::kernel {

// Everything that specialises the Hopper forward kernel, except for its features.
struct ForwardWgmmaConfig {
  DType dtype;              // of q, k, v and out: 16 bits wide
  int head_dim;             // columns of q and k, a multiple of 8 up to 256
  int head_dim_v;           // columns of v and out, a multiple of 8 up to 256
  int gqa_ratio;            // query heads that share one kv head
  bool scale_first;         // scale the scores before the features see them (bias, or scale <= 0)
  bool pack_gqa;            // rows are the query heads of a kv head, query by query
  int block_q;              // query rows of a block of rows, 64 for each consumer warpgroup
  int block_kv;             // keys of a tile
  int page_kv;              // contiguous keys of a tile: all, or those of a page
  int num_stages;           // tiles of K and of V in the ring
  int producer_registers;   // of a thread that loads: 24 to 56, a multiple of 8
  int min_blocks;           // thread blocks per SM: 1, or 2 of one consumer warpgroup
  int teams;                // that have blocks of rows of their own: 1, or 2 of one consumer each
  bool row_max;             // the largest scores of rows are kept
  bool plans_work;          // a separate warp takes blocks of rows from a counter, one ahead
  bool shares_masked_path;  // first and masked steps share one code path

  static constexpr int kControlBytes = 512;  // of barriers and jobs
  static constexpr int kPlanBytes = 80;      // of work tiles that are planned
  static constexpr int kSubtileRows = 64;    // of a consumer's subtile of Q
  static constexpr int kOnesBytes = 2048;    // of 16 rows of ones, the depth of a product

  // Warpgroups of a team that multiply, after the one that loads.
  ATTNJIT_CONSTEXPR int consumers() const { return block_q / 64; }
  ATTNJIT_CONSTEXPR int num_threads() const { return 128 * (1 + teams * consumers()); }
  // Registers of a thread that multiplies: the rest of a thread block's after the threads that
  // load, in eights.
  ATTNJIT_CONSTEXPR int consumer_registers() const {
    // Of a thread of each warpgroup together.
    const int warpgroups = teams * consumers();
    const int pool = min_blocks == 2 ? 256 : warpgroups == 3 ? 512 : 504;
    const int most =
        warpgroups == 1 && min_blocks == 1 ? 240 : (pool - producer_registers) / warpgroups / 8 * 8;
    return most < 240 ? most : 240;
  }
  // Of a team, of an SM's 228 KiB, of which the system takes one per thread block.
  ATTNJIT_CONSTEXPR int max_team_bytes() const { return (228 / min_blocks - 1) / teams * 1024; }

  ATTNJIT_CONSTEXPR int pack_gqa_heads() const { return pack_gqa ? gqa_ratio : 1; }
  // Columns in shared memory, whole slabs of 64, and those that products take.
  ATTNJIT_CONSTEXPR int padded_head_dim() const { return round_up(head_dim, 64); }
  ATTNJIT_CONSTEXPR int padded_head_dim_v() const { return round_up(head_dim_v, 64); }
  ATTNJIT_CONSTEXPR int depth() const { return round_up(head_dim, 16); }
  ATTNJIT_CONSTEXPR int out_columns() const { return round_up(head_dim_v, 32); }
  // Columns of P [V | 1]: the columns of out, and 8 that sum up the rounded probabilities.
  ATTNJIT_CONSTEXPR int summed_columns() const { return out_columns() + 8; }
  // Columns of the first of the two products of P. The ones extend the last slab of V, if `out` has
  // all columns of that slab; otherwise they have a separate product.
  ATTNJIT_CONSTEXPR int first_columns() const {
    return out_columns() % 64 == 0 ? out_columns() - 64 : out_columns();
  }

  // The scores of a consumer, for features.
  ATTNJIT_CONSTEXPR ScoreShape scores() const {
    return {.query_axis = QueryAxis::kRows,
            .row_tiles = 1,
            .groups = block_kv / 8,
            .block_q = block_q,
            .block_kv = block_kv,
            .pack_gqa_heads = pack_gqa_heads(),
            .gqa_ratio = gqa_ratio,
            .strided_keys = page_kv};
  }

  // Shared memory of a team, in bytes: [Q, later O x buffers][K x stages][V x
  // stages][ones][barriers, jobs, plan] [maxima].
  ATTNJIT_CONSTEXPR int q_bytes() const { return block_q * padded_head_dim() * 2; }
  ATTNJIT_CONSTEXPR int q_subtile_bytes() const { return kSubtileRows * padded_head_dim() * 2; }
  ATTNJIT_CONSTEXPR int out_bytes() const { return block_q * padded_head_dim_v() * 2; }
  ATTNJIT_CONSTEXPR int k_bytes() const { return block_kv * padded_head_dim() * 2; }
  ATTNJIT_CONSTEXPR int v_bytes() const { return block_kv * padded_head_dim_v() * 2; }
  ATTNJIT_CONSTEXPR int staged_bytes() const {
    return q_bytes() > out_bytes() ? q_bytes() : out_bytes();
  }
  ATTNJIT_CONSTEXPR int control_bytes() const {
    return kControlBytes + (plans_work ? kPlanBytes : 0);
  }
  // A number for each of a thread's two rows, of this block of rows and of the one before.
  ATTNJIT_CONSTEXPR int maxima_pitch() const { return consumers() * 128 * 4; }
  ATTNJIT_CONSTEXPR int maxima_bytes() const { return row_max ? 4 * maxima_pitch() : 0; }
  // Whether there is room for so many bytes of Q, and then O.
  ATTNJIT_CONSTEXPR bool has_room(int bytes) const {
    return bytes + num_stages * (k_bytes() + v_bytes()) + kOnesBytes + control_bytes() +
               maxima_bytes() <=
           max_team_bytes();
  }
  // With two buffers of Q the next one loads early, and O is staged in the buffer of its Q; with a
  // third the next Q does not wait for O to leave. With room for one only, and where the rows of a
  // warp belong to several heads, O goes from registers to global memory.
  ATTNJIT_CONSTEXPR bool stages_out() const { return !pack_gqa && has_room(2 * staged_bytes()); }
  // With room for one buffer only, each subtile of Q is a buffer, so that subtiles of the next rows
  // load early as far as there is room. With pack_gqa thread blocks seldom have next rows.
  ATTNJIT_CONSTEXPR bool splits_q() const { return !stages_out() && !pack_gqa; }
  ATTNJIT_CONSTEXPR int q_buffer_rows() const { return splits_q() ? kSubtileRows : block_q; }
  ATTNJIT_CONSTEXPR int q_buffer_bytes() const {
    return splits_q() ? q_subtile_bytes() : stages_out() ? staged_bytes() : q_bytes();
  }
  ATTNJIT_CONSTEXPR int q_buffers() const {
    if (pack_gqa) return 1;
    if (stages_out()) return has_room(3 * staged_bytes()) ? 3 : 2;
    int subtiles = consumers();
    while (subtiles < 2 * consumers() && has_room((subtiles + 1) * q_subtile_bytes())) ++subtiles;
    return subtiles;
  }
  ATTNJIT_CONSTEXPR int k_offset() const { return q_buffers() * q_buffer_bytes(); }
  ATTNJIT_CONSTEXPR int v_offset() const { return k_offset() + num_stages * k_bytes(); }
  ATTNJIT_CONSTEXPR int ones_offset() const { return v_offset() + num_stages * v_bytes(); }
  ATTNJIT_CONSTEXPR int control_offset() const { return ones_offset() + kOnesBytes; }
  ATTNJIT_CONSTEXPR int maxima_offset() const { return control_offset() + control_bytes(); }
  ATTNJIT_CONSTEXPR int team_bytes() const {
    const int bytes = maxima_offset() + maxima_bytes();
    return teams == 1 ? bytes : round_up(bytes, 1024);
  }
  ATTNJIT_CONSTEXPR int shared_bytes() const { return teams * team_bytes(); }
  // Of a thread: scores, output and sums, and two sets of probabilities.
  ATTNJIT_CONSTEXPR int fragment_registers() const { return block_kv + summed_columns() / 2; }
  // Whether an SM has room for two thread blocks, asked with min_blocks 2. ptxas then gives each
  // thread the 128 registers of the launch, whatever setmaxnreg claims.
  ATTNJIT_CONSTEXPR bool has_small_tile() const {
    return consumers() == 1 && fragment_registers() <= 100 && team_bytes() <= max_team_bytes();
  }
  // Whether a thread block has room for two teams, asked with teams 2. Their work tiles are
  // planned, and no warps are left that zero-fill keys.
  ATTNJIT_CONSTEXPR bool has_team_tile() const {
    return consumers() == 1 && plans_work && !row_max && team_bytes() <= max_team_bytes();
  }
};

// The rule that `config` breaks, or nullptr. Architecture limits (shared memory) are the host's.
ATTNJIT_CONSTEXPR const char* why_invalid(const ForwardWgmmaConfig& config) {
  if (config.dtype == DType::kFloat32) return "dtype must be fp16 or bf16";
  if (config.head_dim < 8 || config.head_dim > 256 || config.head_dim % 8 != 0)
    return "head_dim must be a multiple of 8 from 8 to 256";
  if (config.head_dim_v < 8 || config.head_dim_v > 256 || config.head_dim_v % 8 != 0)
    return "head_dim_v must be a multiple of 8 from 8 to 256";
  if (config.gqa_ratio < 1) return "gqa_ratio must be at least 1";
  if (config.block_q < 64 || config.block_q > 192 || config.block_q % 64 != 0)
    return "block_q must be 64, 128 or 192";
  if (config.pack_gqa && config.gqa_ratio == 1) return "pack_gqa needs a gqa_ratio above 1";
  if (config.pack_gqa && ForwardWgmmaConfig::kSubtileRows % config.gqa_ratio != 0)
    return "gqa_ratio must divide 64 with pack_gqa";
  if (config.block_kv < 32 || config.block_kv > 256 || config.block_kv % 32 != 0)
    return "block_kv must be a multiple of 32 keys up to 256";
  if (config.page_kv < 1 || config.page_kv % 16 != 0 || config.block_kv % config.page_kv != 0)
    return "page_kv must be a multiple of 16 keys that divides block_kv";
  if (config.num_stages < 2 || config.num_stages > 4) return "num_stages must be 2 to 4";
  if (config.producer_registers < 24 || config.producer_registers > 56 ||
      config.producer_registers % 8 != 0)
    return "producer_registers must be a multiple of 8 from 24 to 56";
  if (config.min_blocks != 1 && !(config.min_blocks == 2 && config.has_small_tile()))
    return "min_blocks must be 1, or 2 with block_q 64 and few registers and little memory";
  if (config.teams != 1 && !(config.teams == 2 && config.min_blocks == 1 && config.has_team_tile()))
    return "teams must be 1, or 2 with block_q 64, plans_work, no row_max and little memory";
  if (config.fragment_registers() > (config.consumers() == 3 ? 132 : 220))
    return "block_kv and head_dim_v need more registers than a thread has";
  return nullptr;
}

// Run-time arguments of the Hopper forward kernel.
struct ForwardWgmmaParams {
  ForwardParams base;
  ForwardSchedule schedule;
  uint32*
      work_taken;  // with plans_work: places of the schedule that are taken beside the first ones
  uint32 zero;     // 0, unknown to the compiler: see ForwardConsumer::hand_on()
  // Boxes of 64 columns. q: the rows of a subtile, heads before queries with pack_gqa. k and v:
  // page_kv rows in StridedKeyOrder, or a quarter of a tile where sequences are packed. k_tail and
  // v_tail, for a tile with a row past the last multiple of four: a quarter of a tile. out: the 16
  // rows of a warp. bias, over queries and keys: a tile of scores.
  TensorMap q, k, v, k_tail, v_tail, out, bias;
};

}  // namespace attnjit::kernel
