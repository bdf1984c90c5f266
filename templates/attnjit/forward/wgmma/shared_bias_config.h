#pragma once
#include "attnjit/forward/plane_order.h"
#include "attnjit/forward/wgmma/config.h"

namespace attnjit::kernel {

// Everything that specialises the Hopper forward for a bias that batch elements share, apart from
// its features. A value of this type is the template argument of the kernel.
struct ForwardSharedBiasConfig {
  DType dtype;     // of q, k, v and out: 16 bits wide
  int head_dim;    // columns of q and k, a multiple of 8 up to 32
  int head_dim_v;  // columns of v and out, the same
  int block_kv;    // keys of a plane at most, a third for each consumer: 288 or 384

  static constexpr int kConsumers = 3;  // warpgroups that multiply
  static constexpr int kStages = 4;     // planes in shared memory
  static constexpr int block_q = 64;    // rows of a strip
  static constexpr int kSlabColumns = 32, kLineBytes = 2 * kSlabColumns;  // of tiles
  static constexpr int min_blocks = 1;
  static constexpr bool scale_first = true;  // of kernels with a bias
  // Of a thread that loads, and of one that multiplies: 64 K in all.
  static constexpr int kProducerRegisters = 32, kConsumerRegisters = 160;

  ATTNJIT_CONSTEXPR int num_threads() const { return 128 * (1 + kConsumers); }
  // Keys of a consumer.
  ATTNJIT_CONSTEXPR int share() const { return block_kv / kConsumers; }
  ATTNJIT_CONSTEXPR int depth() const { return round_up(head_dim, 16); }
  // The shape that features see of the scores of a consumer.
  ATTNJIT_CONSTEXPR ScoreShape scores() const {
    return {.query_axis = QueryAxis::kRows,
            .row_tiles = 1,
            .groups = share() / 8,
            .block_q = block_q,
            .block_kv = share(),
            .pack_gqa_heads = 1,
            .gqa_ratio = 1,
            .strided_keys = share()};
  }

  // Shared memory, in bytes: kStages times [Q | K, V of consumer 0 | K, V of consumer 1 | ...],
  // ones, then kStages times [reference and sums of a row, of each consumer], kStages times [a word
  // of each warp that multiplies], kStages times [bits of the keys of each consumer], barriers.
  static constexpr int kQBytes = block_q * kLineBytes;
  static constexpr int kOnesBytes = 16 * kLineBytes;
  static constexpr int kRowsBytes = kConsumers * block_q * 16;
  static constexpr int kSuitedBytes = kConsumers * 16, kKeptBytes = kConsumers * 16;
  static constexpr int kBarriersBytes = 5 * kStages * 8;
  ATTNJIT_CONSTEXPR int k_bytes() const { return share() * kLineBytes; }
  ATTNJIT_CONSTEXPR int share_bytes() const { return 2 * k_bytes(); }
  ATTNJIT_CONSTEXPR int stage_bytes() const { return kQBytes + kConsumers * share_bytes(); }
  ATTNJIT_CONSTEXPR int ones_offset() const { return kStages * stage_bytes(); }
  ATTNJIT_CONSTEXPR int rows_offset() const { return ones_offset() + kOnesBytes; }
  ATTNJIT_CONSTEXPR int suited_offset() const { return rows_offset() + kStages * kRowsBytes; }
  ATTNJIT_CONSTEXPR int kept_offset() const { return suited_offset() + kStages * kSuitedBytes; }
  ATTNJIT_CONSTEXPR int barriers_offset() const { return kept_offset() + kStages * kKeptBytes; }
  ATTNJIT_CONSTEXPR int shared_bytes() const { return barriers_offset() + kBarriersBytes; }
};

// The rule that `config` breaks, or nullptr. Architecture limits (shared memory) are the host's.
ATTNJIT_CONSTEXPR const char* why_invalid(const ForwardSharedBiasConfig& config) {
  if (config.dtype == DType::kFloat32) return "dtype must be fp16 or bf16";
  if (config.head_dim < 8 || config.head_dim > 32 || config.head_dim % 8 != 0)
    return "head_dim must be a multiple of 8 from 8 to 32";
  if (config.head_dim_v < 8 || config.head_dim_v > 32 || config.head_dim_v % 8 != 0)
    return "head_dim_v must be a multiple of 8 from 8 to 32";
  if (config.block_kv != 288 && config.block_kv != 384) return "block_kv must be 288 or 384";
  return nullptr;
}

// Run-time arguments. The order of PlaneOrder, but all strips of the elements that share a plane of
// the bias before the next such elements.
struct ForwardSharedBiasParams {
  ForwardWgmmaParams base;
  PlaneOrder order;
  int32 num_blocks;
};

}  // namespace attnjit::kernel
