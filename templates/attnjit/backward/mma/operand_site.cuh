#pragma once
#include "attnjit/backward/mma/config.h"
#include "attnjit/backward/operand_gradient_params.h"
#include "attnjit/ptx/accumulate.cuh"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/ptx/reduce.cuh"
#include "attnjit/ptx/sync.cuh"
#include "attnjit/ptx/thread.cuh"
#include "attnjit/score/bias_grad.cuh"
#include "attnjit/score/formula_reads.cuh"
#include "attnjit/tile/row_product.cuh"

// Policies for what a read of an operand adds to the operand's gradient, by what its index depends
// on. `Formula` is rendered from the read (codegen/score_code.cpp): element() numbers the element
// that a pair reads. A kernel calls add() for each span of each of its tiles, and finish() once.
namespace attnjit::kernel {

enum class TileDirection { kNone, kKeys, kQueries, kDiagonal };

// Tiles that a thread block takes one after another.
struct TileLine {
  int number;
  int q_tile, kv_tile;  // the first
  int q_step, kv_step;  // to the next
  int length;
};

template <TileDirection kDirection>
ATTNJIT_DEVICE TileLine line_of(int number, int q_tiles, int kv_tiles) {
  if constexpr (kDirection == TileDirection::kNone) {
    return {number, number / kv_tiles, number % kv_tiles, 0, 0, 1};
  } else if constexpr (kDirection == TileDirection::kKeys) {
    return {number, number, 0, 0, 1, kv_tiles};
  } else if constexpr (kDirection == TileDirection::kQueries) {
    return {number, 0, number, 1, 0, q_tiles};
  } else {
    const int behind = number - (q_tiles - 1);  // keys less queries, in tiles
    const int q_tile = behind < 0 ? -behind : 0, kv_tile = behind > 0 ? behind : 0;
    const int rows = q_tiles - q_tile, keys = kv_tiles - kv_tile;
    return {number, q_tile, kv_tile, 1, 1, rows < keys ? rows : keys};
  }
}

// Adds dS of tiles up in registers.
template <BackwardMmaConfig kConfig>
struct TileSums {
  static constexpr ScoreShape kShape = kConfig.scores();
  static constexpr int kSpans = kConfig.warp_keys() / 32;

  const OperandGradientParams& params;
  int share, batch_plane, head_plane;
  TileLine line;
  Fragments<kShape.row_tiles, kShape.groups> sum[kSpans];

  ATTNJIT_DEVICE explicit TileSums(const OperandGradientParams& p) : params(p) {}

  ATTNJIT_DEVICE void enter(int of_share, int batch, int head, const TileLine& of_tiles) {
    share = of_share;
    batch_plane = batch;
    head_plane = head;
    line = of_tiles;
#pragma unroll
    for (int span = 0; span < kSpans; ++span) sum[span] = 0.0f;
  }
  // The first of the `count` batch elements that share a plane, and the distance to the others.
  ATTNJIT_DEVICE static int first_sharer(int plane, int count) { return plane * count; }
  ATTNJIT_DEVICE static int sharer_offset(int index) { return index; }
  template <class Kernel>
  ATTNJIT_DEVICE void add(Kernel&, const typename Kernel::Tile& ds, int, int span) {
    sum[span] += ds;
  }
};

// The sums of a line of tiles that belong to one element each.
enum class ListEntries {
  kColumns,    // one element for all
  kRows,       // rows have elements of their own
  kKeys,       // keys do
  kDiagonals,  // pairs with the same j - i share one
  kPairs,      // pairs have
};

// Writes a list of sums and their elements, which backward/operand_sum.cuh adds up. In the end the
// tile of sums lies in shared memory, block_q rows that are block_kv + 1 floats apart, so that
// threads that add up neighbouring rows meet different banks.
template <BackwardMmaConfig kConfig, ListEntries kEntries, class Formula>
struct ListedSums : TileSums<kConfig> {
  using Base = TileSums<kConfig>;
  using Base::line, Base::params, Base::sum;
  using Operands = ExpressionParams<Formula::kOperands>;
  static constexpr TileDirection kDirection =
      kEntries == ListEntries::kKeys        ? TileDirection::kQueries
      : kEntries == ListEntries::kDiagonals ? TileDirection::kDiagonal
      : kEntries == ListEntries::kPairs     ? TileDirection::kNone
                                            : TileDirection::kKeys;
  static constexpr int kRows = kConfig.block_q, kKeys = kConfig.block_kv;
  static constexpr int kLength = kEntries == ListEntries::kRows ? kRows
                                 : kEntries == ListEntries::kDiagonals
                                     ? round_up(kRows + kKeys, kListChunk)
                                 : kEntries == ListEntries::kPairs ? kRows * kKeys
                                                                   : kKeys;
  static_assert(kLength % kListChunk == 0);

  const Operands& operands;

  ATTNJIT_DEVICE ListedSums(const OperandGradientParams& p, const Operands& o)
      : Base(p), operands(o) {}

  // Writes sums of a plane that is one tile.
  template <class Kernel, class Sums>
  ATTNJIT_DEVICE void write(Kernel& kernel, const Sums& of_plane, int of_share, int batch,
                            int head) {
    Base::enter(of_share, batch, head, {0, 0, 0, 0, 0, 1});
#pragma unroll
    for (int span = 0; span < Base::kSpans; ++span) sum[span] = of_plane[span];
    finish(kernel);
  }
  template <class Kernel>
  ATTNJIT_DEVICE void finish(Kernel& kernel) const {
    ptx::block_sync();  // all are done with the tiles
    if (kernel.has_scores()) store_tile(kernel);
    ptx::block_sync();  // the sums are there
    const formula::Place at = formula::place_of<Base::kShape>(operands, kernel.block);
    const int64 plane = Base::batch_plane * params.heads + Base::head_plane;
    const int64 first = (plane * params.num_lines + line.number) * kLength;
    float* const values = params.values + Base::share * params.share_stride + first;
    for (int entry = ptx::thread_index(); entry < kLength; entry += kConfig.num_threads()) {
      const Pair pair = pair_of(entry);
      const int i = line.q_tile * kRows + pair.row, j = line.kv_tile * kKeys + pair.key;
      const bool exists =
          pair.row < kRows && i < kernel.params.seqlen_q && j < kernel.params.seqlen_kv;
      ptx::store_global(values + entry, exists ? total_of(entry) : 0.0f);
      if (Base::share != 0) continue;
      const int element = exists ? Formula::element(operands, at, i, j) : -1;
      ptx::store_global(params.elements + first + entry, static_cast<int32>(element));
      const int least = ptx::warp_least(exists ? element : 0x7fffffff);
      const int greatest = ptx::warp_greatest(element);
      if (ptx::lane_index() != 0) continue;
      ptx::store_global(
          reinterpret_cast<ptx::Vector8*>(params.ranges + (first + entry) / kListChunk),
          ptx::Vector8{{static_cast<uint32>(least), static_cast<uint32>(greatest)}});
    }
  }

 private:
  struct Pair {
    int row, key;
  };

  ATTNJIT_DEVICE static uint32 slot(int row, int key) {
    return ptx::shared_base() + 4 * (row * (kKeys + 1) + key);
  }
  ATTNJIT_DEVICE static float value(int row, int key) {
    return ptx::as_float(ptx::load_shared_4(slot(row, key)));
  }
  template <class Kernel>
  ATTNJIT_DEVICE void store_tile(const Kernel& kernel) const {
    constexpr ScoreShape kShape = Base::kShape;
    const int lane = ptx::lane_index();
    const int row = kernel.warp_row() + ScoreShape(kShape).lane_row(lane);
#pragma unroll
    for (int span = 0; span < Base::kSpans; ++span) {
      const uint32 first = slot(row, kernel.span_key(span) + ScoreShape(kShape).lane_key(lane));
      auto tile = sum[span];
      tile.for_each([&](float& x, int m, int n, int e) {
        const int down = ScoreShape(kShape).row(ScoreShape(kShape).line(m, n, e));
        const int right = ScoreShape(kShape).key(m, n, e);
        ptx::store_shared_4(first + 4 * (down * (kKeys + 1) + right), ptx::as_bits(x));
      });
    }
  }

  // A pair of the line's first tile whose element is that of the entry; below the tile if there is
  // none.
  ATTNJIT_DEVICE static Pair pair_of(int entry) {
    if constexpr (kEntries == ListEntries::kColumns) {
      return {0, 0};
    } else if constexpr (kEntries == ListEntries::kRows) {
      return {entry, 0};
    } else if constexpr (kEntries == ListEntries::kKeys) {
      return {0, entry};
    } else if constexpr (kEntries == ListEntries::kPairs) {
      return {entry / kKeys, entry % kKeys};
    } else {
      const int behind = entry - (kRows - 1);  // key less row
      if (behind >= kKeys) return {kRows, 0};
      return {behind < 0 ? -behind : 0, behind > 0 ? behind : 0};
    }
  }

  ATTNJIT_DEVICE static float total_of(int entry) {
    float total = 0.0f;
    if constexpr (kEntries == ListEntries::kPairs) {
      total = value(entry / kKeys, entry % kKeys);
    } else if constexpr (kEntries == ListEntries::kRows) {
      for (int key = 0; key < kKeys; ++key) total += value(entry, key);
    } else if constexpr (kEntries == ListEntries::kDiagonals) {
      for (int row = 0; row < kRows; ++row) {
        const int key = row + entry - (kRows - 1);
        if (key >= 0 && key < kKeys) total += value(row, key);
      }
    } else {
      for (int row = 0; row < kRows; ++row) total += value(row, entry);
    }
    return total;
  }
};

// The sums of a read by which the score is multiplied, and nothing else: the score is slope s and
// terms without s, and its derivative by the element is factor s, with numbers that all pairs of a
// head share. dq is the sum of dS slope scale k over keys, and so
//
//   sum of dS factor s over pairs = factor / slope (sum of q dq over rows)
//
// which takes the rows of dq and no tiles of scores. Heads whose slope is 0, or so small or large
// that dq may lack its terms, have their tiles walked.
template <BackwardMmaConfig kConfig, class Formula>
struct ScaleSums : ListedSums<kConfig, ListEntries::kColumns, Formula> {
  using Base = ListedSums<kConfig, ListEntries::kColumns, Formula>;
  using Base::Base, Base::line, Base::operands, Base::sum;
  static constexpr float kLeastSlope = 0x1p-32f, kMostSlope = 0x1p32f;

  // Adds what the rows of the line at hand give of the kernel's head, if the slope allows.
  template <class Kernel>
  ATTNJIT_DEVICE bool add_rows(const Kernel& kernel) {
    const formula::Place at = formula::place_of<Base::kShape>(operands, kernel.block);
    const float slope = Formula::slope(operands, at), size = fabsf(slope);
    if (!(size >= kLeastSlope && size <= kMostSlope)) return false;
    const BackwardParams& params = kernel.params;
    const int head = kernel.block.head, first = line.q_tile * kConfig.block_q;
    const uint16* q =
        kernel.query_rows(static_cast<const uint16*>(params.q), params.q_strides, head);
    const uint16* dq =
        kernel.query_rows(static_cast<const uint16*>(params.dq), params.dq_strides, head);
    const auto live = kernel.load_live(head, line.q_tile);
    float total = 0.0f;
    for_each_chunk<kConfig.block_q, ceil_div(kConfig.head_dim, 8), kConfig.num_threads(), true>(
        [&](int row, int chunk) {
          if (!live.has(row)) return;
          total += product_of_eight<kConfig.dtype>(
              eight(q + (first + row) * params.q_strides.row, 8 * chunk),
              eight(dq + (first + row) * params.dq_strides.row, 8 * chunk));
        });
    sum[0][0][0][0] += Formula::factor(operands, at) / slope * total;
    return true;
  }

 private:
  ATTNJIT_DEVICE static ptx::Vector16 eight(const uint16* row, int column) {
    return load_eight<kConfig.aligned>(row, column, kConfig.head_dim);
  }
};

// Writes sums of pairs to their elements, for each share of a plane's batch elements and heads to
// others. All begin at 0.
template <BackwardMmaConfig kConfig>
struct PairSums : TileSums<kConfig> {
  using Base = TileSums<kConfig>;
  using Base::Base, Base::params, Base::line, Base::sum;
  static constexpr TileDirection kDirection = TileDirection::kNone;

  template <class Kernel>
  ATTNJIT_DEVICE void finish(Kernel& kernel) const {
    kernel.block.operand_queries = params.num_queries;
    kernel.block.operand_keys = params.num_keys;
    const int64 plane = params.first_element + Base::share * params.share_stride +
                        Base::batch_plane * params.batch_stride +
                        Base::head_plane * params.head_stride;
#pragma unroll
    for (int span = 0; span < Base::kSpans; ++span) {
      const ThreadSpan own(kernel, line.q_tile * kConfig.block_q, line.kv_tile, span);
      const int64 first = plane + own.row * params.query_stride + own.key * params.key_stride;
      const int keys = kernel.block.operand_keys - own.key;
      own.for_each_row(kernel, sum[span], [&](const float(&v)[8], int m, int h) {
        store_keys<DType::kFloat32, false>(params.values,
                                           first + (16 * m + 8 * h) * params.query_stride, v, keys,
                                           params.key_stride);
      });
    }
  }
};

// Adds each pair to its element at once, by atomics. All begin at 0.
template <BackwardMmaConfig kConfig, class Formula>
struct AddedPairs {
  static constexpr ScoreShape kShape = kConfig.scores();
  static constexpr TileDirection kDirection = TileDirection::kKeys;
  using Operands = ExpressionParams<Formula::kOperands>;

  const OperandGradientParams& params;
  const Operands& operands;

  ATTNJIT_DEVICE AddedPairs(const OperandGradientParams& p, const Operands& o)
      : params(p), operands(o) {}

  ATTNJIT_DEVICE void enter(int, int, int, const TileLine&) {}
  template <class Kernel>
  ATTNJIT_DEVICE void add(Kernel& kernel, typename Kernel::Tile& ds, int kv_tile, int span) {
    const formula::Place at = formula::place_of<kShape>(operands, kernel.block);
    const int first_key = kv_tile * kConfig.block_kv + kernel.span_key(span);
    ds.for_each([&](float& x, int m, int n, int e) {
      if (x == 0.0f) return;
      const int row = ScoreShape(kShape).row(ScoreShape(kShape).line(m, n, e));
      const int i = kernel.block.thread_row + row;
      const int j = first_key + kernel.block.thread_key + ScoreShape(kShape).key(m, n, e);
      ptx::add_global(params.values + Formula::element(operands, at, i, j), x);
    });
  }
  template <class Kernel>
  ATTNJIT_DEVICE void finish(Kernel&) const {}
};

}  // namespace attnjit::kernel
