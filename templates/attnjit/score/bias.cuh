#pragma once
#include "attnjit/ptx/math.cuh"
#include "attnjit/ptx/prefetch.cuh"
#include "attnjit/ptx/prefetch_tensor.cuh"
#include "attnjit/ptx/tensor_copy.cuh"
#include "attnjit/score/feature.cuh"
#include "attnjit/score/operand.cuh"
#include "attnjit/score/operand_params.h"
#include "attnjit/score/positions.cuh"
#include "attnjit/score/transposed_operand.cuh"

namespace attnjit::kernel {

// Adds a bias that varies over keys. 16-byte loads are issued before the scores are computed and
// arrive meanwhile. With kLate, and where elements are read one by one, they are issued after the
// product, because their registers do not last through it. Where scores have keys in rows, the copy
// engine brings a bias over queries and keys with aligned 16-bit rows; loads of other biases are
// issued before the product too.
template <ScoreShape kShape, DType kDType, Extent kExtent, bool kVectorized, bool kLate = false>
struct Bias : Feature {
  static constexpr int kElementBytes = element_bytes(kDType);
  static constexpr bool kPackGqa = kShape.pack_gqa_heads > 1;
  static constexpr bool kOwnRows = kExtent == Extent::kPerPair || kPackGqa;
  static constexpr bool kTransposed = !kShape.queries_in_rows();
  static constexpr bool kByTile = kTransposed && kOwnRows && kVectorized && kElementBytes == 2;
  static constexpr bool kEarly = kTransposed ? !kByTile : kVectorized && !kLate;
  // Tiles that lie inside of the tensor are read without a test of their keys.
  static constexpr bool kWhole = kEarly && !kTransposed && kShape.strided_keys > 0;
  static constexpr bool kPerHead = true, kAdds = true;
  // Whether a plane may stay in registers, see score/resident.cuh.
  static constexpr bool kHasRegisters = !kTransposed;
  static constexpr ScoreShape kBiasScores = kShape;
  using ElementRegisters = TypeIf<kOwnRows, TransposedRegisters<kShape, kElementBytes>,
                                  KeyRegisters<kShape, kElementBytes>>;
  using Registers = TypeIf<kByTile, TransposedTileRegisters<kShape>,
                           TypeIf<kTransposed, ElementRegisters,
                                  OperandRegisters<kShape, kElementBytes, kVectorized, kOwnRows>>>;

  const OperandParams& params;
  const uint8* plane;  // of the block's head, or of its batch element with pack_gqa
  typename Registers::Row rows[Registers::kLines];  // the thread's, for whole tiles
  Registers bias;
  uint32 shared_tile = 0;  // where the copy engine brings it

  ATTNJIT_DEVICE explicit Bias(const OperandParams& p) : params(p), plane(nullptr), rows{} {}

  ATTNJIT_DEVICE const uint8* head_of(const uint8* base, int head) const {
    return base + head / params.heads_per_plane * params.head_stride * kElementBytes;
  }
  ATTNJIT_DEVICE void begin(const Block& block) {
    plane =
        static_cast<const uint8*>(params.data) + block.batch * params.batch_stride * kElementBytes;
    if constexpr (!kPackGqa) plane = head_of(plane, block.head);
    // Reads of whole tiles add an offset to these addresses.
    if constexpr (kWhole) {
#pragma unroll
      for (int line = 0; line < Registers::kLines; ++line) {
        rows[line].keys = row_address(block, block.thread_row + ScoreShape(kShape).row(line)) +
                          block.thread_key * kElementBytes;
      }
    }
  }
  ATTNJIT_DEVICE const uint8* row_address(const Block& block, int row) const {
    if constexpr (!kOwnRows) return plane;
    // Rows past the tensor read its last row; their results are never stored.
    const int num_rows = block.operand_queries * kShape.pack_gqa_heads;
    const RowOwner owner =
        owner_of<kShape.pack_gqa_heads>(block, row < num_rows ? row : num_rows - 1);
    const uint8* head = kPackGqa ? head_of(plane, owner.head) : plane;
    return head + owner.query * params.query_stride * kElementBytes;
  }
  ATTNJIT_DEVICE void fetch(const Block& block, int first_key, TileUse) {
    if constexpr (kWhole) {
      if (first_key + kShape.block_kv <= block.operand_keys) {
        bias.read_whole(rows, first_key);
        return;
      }
    }
    if constexpr (kEarly) bias.read(*this, block, first_key);
  }
  ATTNJIT_DEVICE void fetch(const Block&, int first_key, PlainTile) {
    if constexpr (kEarly) bias.read_whole(rows, first_key);
  }
  ATTNJIT_DEVICE void begin_add(const Block& block, int first_key) {
    if constexpr (kByTile) {
      bias.read(shared_tile, block);
    } else if constexpr (!kEarly) {
      bias.read(*this, block, first_key);
    }
  }
  ATTNJIT_DEVICE float added(float score, float scale, int line, int key) const {
    const uint32 bits = bias.bits(line, key);
    if constexpr (kElementBytes == 4) {
      return fmaf(score, scale, ptx::as_float(bits));
    } else {
      return fmaf(score, scale, ptx::widen<kDType>(static_cast<uint16>(bits)));
    }
  }
  template <class S>
  ATTNJIT_DEVICE void add(const Block& block, S& scores, float scale, int first_key) {
    begin_add(block, first_key);
    for_each_score<kShape>(
        scores, [&](float& score, int line, int key) { score = added(score, scale, line, key); });
  }

  ATTNJIT_DEVICE void prefetch_tile(const Block& block, int first_key, const TensorMap& bias_map) {
    if constexpr (!kTransposed && kVectorized && kExtent == Extent::kPerPair && !kPackGqa) {
      ptx::prefetch_tensor(bias_map, first_key, block.first_query,
                           block.head / params.heads_per_plane,
                           params.batch_stride == 0 ? 0 : block.batch);
    }
  }
  ATTNJIT_DEVICE void load_tile(const Block& block, int first_key, const TensorMap& bias_map,
                                uint32 tile, uint32 full) {
    if constexpr (kByTile) {
#pragma unroll 1
      for (int slab = 0; slab < kShape.block_kv / 64; ++slab) {
        ptx::tensor_load(tile + slab * kShape.block_q * 128, bias_map, full, first_key + 64 * slab,
                         block.first_query, block.head / params.heads_per_plane,
                         params.batch_stride == 0 ? 0 : block.batch);
      }
    }
  }
  ATTNJIT_DEVICE void receive_tile(uint32 tile) { shared_tile = tile; }
  // Prefetches a tile of the current head to L2, where it will be read late.
  template <class Team>
  ATTNJIT_DEVICE void prefetch(Team team, const Block& block, int head, int q_tile,
                               int kv_tile) const {
    if constexpr (kLate && kExtent == Extent::kPerPair && kVectorized) {
      if (head != block.head) return;
      constexpr int kLineKeys = 128 / kElementBytes;
      constexpr int kLines = ceil_div(kShape.block_kv, kLineKeys);  // of a row
      const int thread = team.index();
#pragma unroll
      for (int first = 0; first < kShape.block_q * kLines; first += Team::kSize) {
        const int line = first + thread;
        const int row = q_tile * kShape.block_q + line / kLines;
        const int key = kv_tile * kShape.block_kv + line % kLines * kLineKeys;
        if (line >= kShape.block_q * kLines || row >= block.operand_queries ||
            key >= block.operand_keys) {
          continue;
        }
        ptx::prefetch_l2(plane + (row * params.query_stride + key) * kElementBytes);
      }
    }
  }
};

}  // namespace attnjit::kernel
