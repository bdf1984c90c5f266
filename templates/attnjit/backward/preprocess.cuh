#pragma once
#include "attnjit/backward/preprocess_config.h"
#include "attnjit/ptx/math.cuh"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/ptx/reduce.cuh"
#include "attnjit/ptx/sync.cuh"
#include "attnjit/ptx/thread.cuh"
#include "attnjit/score/load_row_bias.cuh"
#include "attnjit/score/load_row_mask.cuh"
#include "attnjit/score/load_sink.cuh"
#include "attnjit/tile/packed_rows.cuh"
#include "attnjit/tile/row_product.cuh"

// Prepares the rows of the backward, and sets to zero what later kernels add to:
//
//   delta = rowsum(dout out) - dlse      lse, but +inf for a dead row
//
// A row that a mask drops is dead whatever its lse is, which may be that of more keys than the call
// has: masks that are the same for all keys of a row are no other kernel's business. Neither are
// such biases: they shift a row's scores as they do its lse, from which they are taken off here.
// And it writes, for gradients of sinks and of these biases,
//
//   dsink = -exp(sink - lse) delta       rowsum(dS) = dlse - dsink
//
// One thread block takes kRowBlock rows of one query head, of one sequence where these are packed.
// No shared memory.
namespace attnjit::kernel {

template <BackwardPreprocessConfig kConfig>
struct BackwardPreprocess {
  static constexpr int kLanes = kConfig.row_lanes();
  static constexpr int kRowsAtOnce = kConfig.num_threads() / kLanes;

  const BackwardPreprocessParams& params;
  int shift;     // from a padded row to the tensors' row
  int end_row;   // of the tensors, that the thread block may have
  int sequence;  // of packed ones, and its first row in the tensors
  int begin_row;

  ATTNJIT_DEVICE explicit BackwardPreprocess(const BackwardPreprocessParams& p)
      : params(p), shift(0), end_row(p.seqlen_q), sequence(0), begin_row(0) {}

  ATTNJIT_DEVICE void run() {
    ptx::let_next_kernel_begin();
    clear_sums();
    if (params.num_row_blocks == 0) return;
    const int64 plane = ptx::block_index() / params.num_row_blocks;
    const int row_block = static_cast<int>(ptx::block_index() % params.num_row_blocks);
    const int first = row_block * kRowBlock;
    if constexpr (kConfig.packed) enter_sequence(row_block);
    if (ptx::thread_index() < kRowBlock) prepare_row(plane, first + ptx::thread_index());
    for (int r = ptx::thread_index() / kLanes; r < kRowBlock; r += kRowsAtOnce) {
      prepare_delta(plane, first + r);
    }
  }

 private:
  static constexpr float kNoProbability = -0x1p100f;

  ATTNJIT_DEVICE void enter_sequence(int row_block) {
    const PackedTile found = find_tile(params.packed, row_block, kRowBlock);
    const PackedRange rows = range_of(params.packed, found.sequence);
    shift = rows.begin + (found.tile - row_block) * kRowBlock;
    end_row = rows.begin + rows.size;
    sequence = found.sequence;
    begin_row = rows.begin;
  }

  ATTNJIT_DEVICE int64 padded_row(int64 plane, int row) const {
    return plane * params.num_row_blocks * kRowBlock + row;
  }
  ATTNJIT_DEVICE float lse_of(int64 plane, int row) const {
    return row + shift < end_row
               ? ptx::load_global(params.lse + plane * params.seqlen_q + row + shift)
               : -ptx::infinity();
  }
  ATTNJIT_DEVICE float dlse_of(int64 plane, int row) const {
    return params.dlse != nullptr
               ? ptx::load_global(params.dlse + plane * params.seqlen_q + row + shift)
               : 0.0f;
  }

  ATTNJIT_DEVICE void clear_sums() const {
    const int64 stride = static_cast<int64>(params.num_blocks) * kConfig.num_threads();
    auto* sums = reinterpret_cast<ptx::Vector16*>(params.sums);
    for (int64 i =
             static_cast<int64>(ptx::block_index()) * kConfig.num_threads() + ptx::thread_index();
         i < params.sum_vectors; i += stride) {
      ptx::store_global(sums + i, ptx::Vector16{});
    }
  }

  ATTNJIT_DEVICE float sink_of(int64 plane) const {
    if constexpr (!kConfig.sink) return -ptx::infinity();
    return load_sink<kConfig.sink_dtype>(params.sink, static_cast<int>(plane % params.num_heads_q));
  }
  // Whether a row with that lse has a live key. Those without one have the sink's, or are not in
  // use.
  ATTNJIT_DEVICE bool is_live(int64 plane, int row, float lse) const {
    const bool live = lse != -ptx::infinity() && lse != sink_of(plane);
    if (kConfig.row_bias && query_of(row) >= params.operand_queries) return false;
    return kConfig.row_mask ? live && keeps(plane, row) : live;
  }
  ATTNJIT_DEVICE bool keeps(int64 plane, int row) const {
    const int query = query_of(row);
    return query < params.operand_queries &&
           keeps_row(params.row_mask, batch_plane_of(params.row_mask, plane), head_of(plane),
                     query);
  }
  // The logarithm of the sum over a live row's keys without the bias that they share.
  ATTNJIT_DEVICE float unbiased(int64 plane, int row, float lse) const {
    if constexpr (!kConfig.row_bias) return lse;
    return lse - load_row_bias<kConfig.bias_dtype>(params.row_bias,
                                                   batch_plane_of(params.row_bias, plane),
                                                   head_of(plane), query_of(row));
  }
  // The plane over the batch that a mask or bias has for that of a batch element or sequence.
  ATTNJIT_DEVICE int batch_plane_of(const Grouped<OperandParams>& operand, int64 plane) const {
    const auto run =
        static_cast<uint32>(batch_of(plane)) / static_cast<uint32>(operand.batches_per_plane);
    return operand.cycle.plane_of(run);
  }
  // The batch element or sequence, the head, and the row of it, as masks and biases count them.
  ATTNJIT_DEVICE int batch_of(int64 plane) const {
    return kConfig.packed ? sequence : static_cast<int>(plane / params.num_heads_q);
  }
  ATTNJIT_DEVICE int head_of(int64 plane) const {
    return static_cast<int>(plane % params.num_heads_q);
  }
  ATTNJIT_DEVICE int query_of(int row) const { return row + shift - begin_row; }

  // One thread per row; whole warps take part.
  ATTNJIT_DEVICE void prepare_row(int64 plane, int row) const {
    const float lse = lse_of(plane, row);
    const bool live = is_live(plane, row, lse);
    const int64 index = padded_row(plane, row);
    ptx::store_global(params.rows.lse + index, live ? unbiased(plane, row, lse) : ptx::infinity());
    const uint32 word = ptx::warp_ballot(live);
    if (ptx::lane_index() == 0) ptx::store_global(params.rows.live + index / 32, word);
  }

  // kLanes neighbouring lanes per row; whole warps take part.
  ATTNJIT_DEVICE void prepare_delta(int64 plane, int row) const {
    const int lane = ptx::thread_index() % kLanes;
    const float lse = lse_of(plane, row);
    const bool live = is_live(plane, row, lse);
    float sum = 0.0f;
    if (live) {
      const auto* out =
          row_of(static_cast<const uint16*>(params.out), params.out_strides, plane, row);
      const auto* dout =
          row_of(static_cast<const uint16*>(params.dout), params.dout_strides, plane, row);
#pragma unroll
      for (int column = 0; column < kConfig.head_dim_v; column += 8 * kLanes) {
        sum += product(out, dout, column + 8 * lane);
      }
    }
    sum = ptx::lanes_sum<kLanes>(sum);
    if constexpr (kConfig.dq_columns > 0) {
      if (!live) clear_dq(plane, row, lane);
    }
    if (lane == 0) {
      const float delta = live ? sum - dlse_of(plane, row) : 0.0f;
      ptx::store_global(params.rows.delta + padded_row(plane, row), delta);
      if constexpr (kConfig.bf16x3) write_bf16x3(plane, row, live, delta);
      write_sums(plane, row, live, delta);
    }
  }
  // Writes the dq of a dead row, which no other kernel may visit.
  ATTNJIT_DEVICE void clear_dq(int64 plane, int row, int lane) const {
    if (row + shift >= end_row) return;
    uint16* const dq = row_of(static_cast<uint16*>(params.dq), params.dq_strides, plane, row);
#pragma unroll
    for (int column = 8 * lane; column < kConfig.dq_columns; column += 8 * kLanes) {
      ptx::store_global(reinterpret_cast<ptx::Vector16*>(dq + column), ptx::Vector16{});
    }
  }
  ATTNJIT_DEVICE void write_sums(int64 plane, int row, bool live, float delta) const {
    const float lse = lse_of(plane, row);
    const float dlse = lse == -ptx::infinity() ? 0.0f : dlse_of(plane, row);
    float dsink = 0.0f;
    if constexpr (kConfig.sink) {
      const float sink = sink_of(plane);
      // The sink is all that a dead row in use has.
      if (sink != -ptx::infinity() && lse != -ptx::infinity()) {
        dsink = live ? -ptx::exp2_approx((sink - lse) * kLog2E) * delta : dlse;
      }
      if (params.dsink_rows != nullptr) {
        ptx::store_global(params.dsink_rows + padded_row(plane, row), dsink);
      }
    }
    if (params.ds_rows != nullptr) {
      ptx::store_global(params.ds_rows + padded_row(plane, row), live ? dlse - dsink : 0.0f);
    }
  }
  // A dead row, and one whose lse is +inf, gets a number that no score comes near but that 0 times
  // it is 0.
  ATTNJIT_DEVICE void write_bf16x3(int64 plane, int row, bool live, float delta) const {
    float lse = lse_of(plane, row);
    if (kConfig.row_bias && live) lse = unbiased(plane, row, lse);
    // No score comes near the largest sinks either, nor where a bias leaves that much or drops the
    // row, and a product with scale might overflow.
    const bool vanishes =
        !live || lse == ptx::infinity() || ((kConfig.sink || kConfig.row_bias) && lse > 0x1p36f);
    ptx::Vector16 v{};
    split(vanishes ? kNoProbability : -lse * params.inverse_scale, v, 0);
    split(-delta, v, 3);
    ptx::store_global(reinterpret_cast<ptx::Vector16*>(params.row_bf16x3) + padded_row(plane, row),
                      v);
  }
  // Three bf16 numbers that add up to `value`, from the one with index `first` on. An infinity and
  // NaN are the first of them.
  ATTNJIT_DEVICE static void split(float value, ptx::Vector16& v, int first) {
#pragma unroll
    for (int i = first; i < first + 3; ++i) {
      const uint32 bits = ptx::pack<DType::kBFloat16>(value, 0.0f);
      v.word[i / 2] |= bits << (16 * (i & 1));
      const float rest = value - ptx::widen<DType::kBFloat16>(static_cast<uint16>(bits));
      value = rest == rest ? rest : 0.0f;
    }
  }
  template <class T>
  ATTNJIT_DEVICE T* row_of(T* base, const RowStrides& strides, int64 plane, int row) const {
    return base + plane / params.num_heads_q * strides.batch +
           plane % params.num_heads_q * strides.head + (row + shift) * strides.row;
  }
  // Of eight columns from `column` on; those past the end count as 0.
  ATTNJIT_DEVICE float product(const uint16* out, const uint16* dout, int column) const {
    if (column >= kConfig.head_dim_v) return 0.0f;
    return product_of_eight<kConfig.dtype>(eight(out, column), eight(dout, column));
  }
  ATTNJIT_DEVICE static ptx::Vector16 eight(const uint16* row, int column) {
    return load_eight<kConfig.aligned>(row, column, kConfig.head_dim_v);
  }
};

template <BackwardPreprocessConfig kConfig>
ATTNJIT_DEVICE void backward_preprocess(const BackwardPreprocessParams& params) {
  BackwardPreprocess<kConfig>(params).run();
}

}  // namespace attnjit::kernel
