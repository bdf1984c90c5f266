#pragma once
#include "attnjit/packed_work.h"
#include "attnjit/prepass/packed_costs.h"

namespace attnjit::kernel {

// Specialises the kernel that orders the blocks of rows of packed sequences.
struct PackedOrderConfig {
  int block_q;         // rows of a block
  int pack_gqa_heads;  // rows of a query
  bool paged_keys;     // sequences have keys in pages

  ATTNJIT_CONSTEXPR int num_threads() const { return 1024; }
  // Sequences whose begins lie in shared memory; of more, every n-th.
  static constexpr int kSamples = 4096;
  // Shared memory, in bytes: [counts of buckets][three totals of each warp][begins].
  ATTNJIT_CONSTEXPR int totals_offset() const { return 4 * kCostBuckets; }
  ATTNJIT_CONSTEXPR int begins_offset() const { return totals_offset() + num_threads() / 32 * 12; }
  ATTNJIT_CONSTEXPR int shared_bytes() const { return begins_offset() + 4 * kSamples; }
};

// The rule that `config` breaks, or nullptr.
ATTNJIT_CONSTEXPR const char* why_invalid(const PackedOrderConfig& config) {
  if (config.pack_gqa_heads < 1) return "pack_gqa_heads must be at least 1";
  if (config.block_q < 1 || config.block_q % config.pack_gqa_heads != 0)
    return "block_q must be a multiple of pack_gqa_heads";
  return nullptr;
}

struct PackedOrderParams {
  PackedRows q, kv;
  const int32* used_kv;  // keys in use of each sequence, where these are paged
  PackedCosts costs;
  PackedWork work;   // room for a tile more than num_packed_tiles()
  int32 num_planes;  // heads, or kv heads with pack_gqa
  int32 num_kv_heads;
  int32 most_sections;  // a divisor of num_kv_heads
  int32 num_blocks;     // thread blocks that share out the work
};

}  // namespace attnjit::kernel
