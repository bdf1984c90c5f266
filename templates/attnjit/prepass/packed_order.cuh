#pragma once
#include "attnjit/prepass/packed_order_config.h"
#include "attnjit/ptx/count.cuh"
#include "attnjit/ptx/math.cuh"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/ptx/shuffle.cuh"
#include "attnjit/ptx/sync.cuh"
#include "attnjit/ptx/thread.cuh"
#include "attnjit/tile/packed_rows.cuh"
#include "attnjit/tile/sequence_keys.cuh"

// Writes the order in which the forward works on the blocks of rows of packed sequences: from those
// that cost most to those that cost nothing. One thread block sorts them by counting, so that the
// forward, which begins meanwhile, reads an entry for each.
//
// Threads go over the numbers of packed_rows.h, not over sequences, of which one may have all the
// rows. Blocks of rows of one bucket come in any order.
namespace attnjit::kernel {

// The sum over the lanes up to this one.
ATTNJIT_DEVICE uint32 running_sum(uint32 value) {
  const int lane = ptx::lane_index();
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const uint32 before = ptx::warp_broadcast(value, lane < distance ? lane : lane - distance);
    if (lane >= distance) value += before;
  }
  return value;
}

// The last of `count` things in a row for which `begun` holds, or the first.
template <class Begun>
ATTNJIT_DEVICE int last_begun(int count, Begun begun) {
  int first = 0;
  while (count > 1) {
    const int half = count / 2;
    if (begun(first + half)) first += half;
    count -= half;
  }
  return first;
}

template <PackedOrderConfig kConfig>
struct PackedOrder {
  static_assert(why_invalid(kConfig) == nullptr,
                "why_invalid(config) in prepass/packed_order_config.h");
  static_assert(kConfig.num_threads() == kCostBuckets && kCostBuckets == 32 * 32);
  static constexpr int kSize = kConfig.block_q, kHeads = kConfig.pack_gqa_heads;

  const PackedOrderParams& params;
  const int sequences = params.q.num_sequences + 1;  // with the rows that belong to none
  const int stride = ceil_div(sequences, PackedOrderConfig::kSamples);  // of samples
  const int samples = ceil_div(sequences, stride);

  ATTNJIT_DEVICE void run() const {
    ptx::let_next_kernel_begin();
    ptx::store_shared_4(counts(ptx::thread_index()), 0);
    for (int i = ptx::thread_index(); i < samples; i += kConfig.num_threads()) {
      ptx::store_shared_4(begins(i), static_cast<uint32>(begin_of(params.q, i * stride)));
    }
    ptx::block_sync();  // the counts are 0, and the samples are there
    for_each_block([&](const PackedTile&, uint32 bucket) { ptx::add_shared(bucket, 1); });
    ptx::block_sync();  // the blocks of each bucket are counted
    const Totals all = place_buckets();
    ptx::block_sync();  // each bucket has its place
    for_each_block(
        [&](const PackedTile& tile, uint32 bucket) { put(ptx::add_shared(bucket, 1), tile); });
    if (ptx::thread_index() != 0) return;
    put(all.tiles, {params.q.num_sequences, ceil_div(params.q.num_rows * kHeads, kSize)});
    set_count(PackedWork::kTaken, 0);
    set_count(PackedWork::kTiles, all.tiles);
    set_count(PackedWork::kSection, params.num_planes / num_sections(all));
  }

 private:
  // Of all blocks of rows of a plane: their number, their time and that of the costliest.
  struct Totals {
    uint32 tiles;
    float time, longest;
  };

  ATTNJIT_DEVICE static uint32 counts(int bucket) { return ptx::shared_base() + 4 * bucket; }
  ATTNJIT_DEVICE static uint32 totals(int warp) {
    return ptx::shared_base() + kConfig.totals_offset() + 12 * warp;
  }
  ATTNJIT_DEVICE static uint32 begins(int sample) {
    return ptx::shared_base() + kConfig.begins_offset() + 4 * sample;
  }
  ATTNJIT_DEVICE void put(uint32 rank, const PackedTile& tile) const {
    ptx::store_global(
        reinterpret_cast<ptx::Vector8*>(params.work.tiles + rank),
        ptx::Vector8{{static_cast<uint32>(tile.sequence), static_cast<uint32>(tile.tile)}});
  }

  ATTNJIT_DEVICE static int first_tile(int begin, int sequence) {
    return first_packed_tile(begin * kHeads, sequence, kSize);
  }
  ATTNJIT_DEVICE PackedTile find(int number) const {
    const int sample = last_begun(samples, [&](int i) {
      return first_tile(static_cast<int>(ptx::load_shared_4(begins(i))), i * stride) <= number;
    });
    const int first = sample * stride, rest = sequences - first;
    const int sequence = first + last_begun(rest < stride ? rest : stride, [&](int i) {
                           return first_tile(begin_of(params.q, first + i), first + i) <= number;
                         });
    return {sequence, number - first_tile(begin_of(params.q, sequence), sequence)};
  }
  ATTNJIT_DEVICE int num_keys(int sequence) const {
    if (sequence >= params.q.num_sequences) return 0;
    return keys_of_sequence<kConfig.paged_keys>(params.q, params.kv, params.used_kv, sequence).size;
  }
  // Calls visit(tile, address of its bucket) for the thread's share of the blocks that have rows.
  template <class Visit>
  ATTNJIT_DEVICE void for_each_block(Visit visit) const {
    const int numbers = num_packed_tiles(params.q.num_rows * kHeads, params.q.num_sequences, kSize);
    for (int number = ptx::thread_index(); number < numbers; number += kConfig.num_threads()) {
      const PackedTile tile = find(number);
      const int queries = range_of(params.q, tile.sequence).size;
      // Numbers that the caller must not give may leave no sequence that has begun.
      if (tile.tile < 0 || tile.tile >= ceil_div(queries * kHeads, kSize)) continue;
      const int cost =
          packed_cost(params.costs, queries, num_keys(tile.sequence), kSize / kHeads, tile.tile);
      visit(tile, counts(kCostBuckets - 1 - cost_bucket(cost)));
    }
  }
  // Puts the rank of its first block in the place of each bucket's count.
  ATTNJIT_DEVICE static Totals place_buckets() {
    const int warp = ptx::warp_index(), lane = ptx::lane_index();
    const uint32 mine = counts(ptx::thread_index());
    const uint32 count = ptx::load_shared_4(mine), upto = running_sum(count);
    const float time = bucket_time(kCostBuckets - 1 - ptx::thread_index());
    const float sum = ptx::warp_sum(static_cast<float>(count) * time);
    const float longest = ptx::warp_max(count == 0 ? 0.0f : time);
    if (lane == 31) {
      ptx::store_shared_4(totals(warp), upto);
      ptx::store_shared_4(totals(warp) + 4, ptx::as_bits(sum));
      ptx::store_shared_4(totals(warp) + 8, ptx::as_bits(longest));
    }
    ptx::block_sync();  // the totals of all warps are there
    const uint32 warps = running_sum(ptx::load_shared_4(totals(lane)));
    const uint32 before = ptx::warp_broadcast(warps, warp == 0 ? 0 : warp - 1);
    ptx::store_shared_4(mine, (warp == 0 ? 0 : before) + upto - count);
    return {ptx::warp_broadcast(warps, 31),
            ptx::warp_sum(ptx::as_float(ptx::load_shared_4(totals(lane) + 4))),
            ptx::warp_max(ptx::as_float(ptx::load_shared_4(totals(lane) + 8)))};
  }
  ATTNJIT_DEVICE uint32 num_sections(const Totals& all) const {
    const auto planes = static_cast<float>(params.num_planes);
    const auto blocks = static_cast<float>(params.num_blocks);
    const float rounds = all.longest > 0.0f ? all.time * planes / (all.longest * blocks) : 1.0f;
    return packed_sections(params.most_sections, params.num_kv_heads, rounds);
  }
  ATTNJIT_DEVICE void set_count(int count, uint32 value) const {
    ptx::store_global(params.work.counts + count, value);
  }
};

template <PackedOrderConfig kConfig>
ATTNJIT_DEVICE void packed_order(const PackedOrderParams& params) {
  PackedOrder<kConfig>{params}.run();
}

}  // namespace attnjit::kernel
