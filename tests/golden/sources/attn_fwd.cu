// attn_fwd fp16 d96 dv64 gqa4 left right seqlens mask=qk bias=qk,fp32,scalar | q64 kv32 s1 w4 b2 max_free

// ---- attnjit/forward_mma.cuh

// ---- attnjit/forward_mma_tiles.cuh

// ---- attnjit/forward_config.h

// ---- attnjit/score/score_shape.h

// ---- attnjit/tile/key_order.h

// ---- attnjit/types.h
// Types and small constexpr helpers that kernels and host code share. Includes nothing, so that
// NVRTC needs no header search path and host compilers agree on every layout.

// A function that host code, kernels and constant expressions may call. The inline form is for
// functions that kernels call with values known at run time only.
#ifdef __CUDACC__
#define ATTNJIT_CONSTEXPR __host__ __device__ constexpr
#define ATTNJIT_INLINE_CONSTEXPR __host__ __device__ __forceinline__ constexpr
#else
#define ATTNJIT_CONSTEXPR constexpr
#define ATTNJIT_INLINE_CONSTEXPR constexpr
#endif

namespace attnjit::kernel {

using int32 = int;
using int64 = long long;
using uint8 = unsigned char;
using uint16 = unsigned short;
using uint32 = unsigned int;
using uint64 = unsigned long long;

enum class DType : int { kFloat16 = 0, kBFloat16 = 1, kFloat32 = 2 };

// Over which axes of a (query, key) plane an operand varies.
enum class Extent : int { kPerQuery = 1, kPerKey = 2, kPerPair = 3 };

// std::conditional_t, for kernels include no headers but their own.
template <bool kCondition, class Then, class Else>
struct Conditional {
  using Type = Then;
};
template <class Then, class Else>
struct Conditional<false, Then, Else> {
  using Type = Else;
};
template <bool kCondition, class Then, class Else>
using TypeIf = typename Conditional<kCondition, Then, Else>::Type;

ATTNJIT_CONSTEXPR int element_bytes(DType dtype) { return dtype == DType::kFloat32 ? 4 : 2; }
// Two elements of 1, packed.
ATTNJIT_CONSTEXPR uint32 pair_of_ones(DType dtype) {
  return dtype == DType::kBFloat16 ? 0x3f803f80 : 0x3c003c00;
}
ATTNJIT_CONSTEXPR int ceil_div(int a, int b) { return (a + b - 1) / b; }
ATTNJIT_CONSTEXPR int round_up(int a, int b) { return ceil_div(a, b) * b; }

// A score at or below this counts as -inf: additive masks hold finfo.min, whose product with
// log2(e) would overflow fp32.
inline constexpr float kDeadScore = -1e38f;
inline constexpr float kLog2E = 1.4426950408889634f;
inline constexpr float kLn2 = 0.6931471805599453f;

}  // namespace attnjit::kernel

namespace attnjit::kernel {

// Which key a column of a score fragment stands for.
//
// The matrix instruction gives lane t of a quad the columns {2t, 2t + 1} of each group of eight.
// The order of the keys is ours to choose, as long as K's rows (columns of S) and V's rows (the
// depth of P V) follow it, and both come from shared memory by row address. So within 32 keys
//
//     group n (0 ... 3), column 2t + e   stands for key   8t + 2n + e
//
// and each thread holds eight neighbouring keys of a row: a bias is one 16-byte load and a packed
// mask one byte, without a detour through shared memory.
struct KeyOrder {
  // Key of element `e` of column group `n`, relative to the thread's first key of the tile.
  ATTNJIT_CONSTEXPR static int offset(int n, int e) {
    return 32 * (n >> 2) + 2 * (n & 3) + (e & 1);
  }
  // The thread's first key, relative to the tile.
  ATTNJIT_INLINE_CONSTEXPR static int thread_key(int lane) { return 8 * (lane & 3); }
  // Key that stands in `column` (0 ... 7) of column group `n`.
  ATTNJIT_INLINE_CONSTEXPR static int row(int n, int column) {
    return 32 * (n >> 2) + 8 * (column >> 1) + 2 * (n & 3) + (column & 1);
  }
};

// The same for wgmma, whose operands the copy engine brings in pieces: a tensor map can bring every
// fourth row of a piece, then the next row of every four, and so on. So of the S spans of 32 keys
// of a piece
//
//     group n (0 ... 4 S - 1), column 2t + e   stands for key   32 (n mod S) + 8t + 4e + n div S
//
// and each thread holds eight neighbouring keys of each span again. In pieces of 16 keys it is
// every other row, and a thread holds four neighbouring keys of each span of 16.
struct StridedKeyOrder {
  // The distance of rows of a piece of `keys` keys that follow each other in shared memory.
  ATTNJIT_INLINE_CONSTEXPR static int stride(int keys) { return keys % 32 == 0 ? 4 : 2; }
  // Keys of a thread that are neighbours, and the span that holds those of a quad.
  ATTNJIT_INLINE_CONSTEXPR static int neighbours(int keys) { return 2 * stride(keys); }
  ATTNJIT_INLINE_CONSTEXPR static int span(int keys) { return 8 * stride(keys); }

  // Key of element `e` of column group `n`, relative to the thread's first key of the tile.
  ATTNJIT_CONSTEXPR static int offset(int keys, int n, int e) {
    const int spans = keys / span(keys), group = n % (keys / 8);
    return keys * (n / (keys / 8)) + span(keys) * (group % spans) + stride(keys) * (e & 1) +
           group / spans;
  }
  // The thread's first key, relative to the tile.
  ATTNJIT_INLINE_CONSTEXPR static int thread_key(int keys, int lane) {
    return neighbours(keys) * (lane & 3);
  }
  // The key of row `row` of a piece, as the copy engine brings it.
  ATTNJIT_INLINE_CONSTEXPR static int key(int keys, int row) {
    return stride(keys) * (row % (keys / stride(keys))) + row / (keys / stride(keys));
  }
};

// Keys of a tile that the copy engine brings from one place, a piece: all of them, or where keys
// are paged and pages smaller, those of a page.
ATTNJIT_CONSTEXPR int keys_of_piece(int page_size, int keys) {
  return page_size > 0 && page_size < keys ? page_size : keys;
}

}  // namespace attnjit::kernel

namespace attnjit::kernel {

// Which axis of a fragment of scores runs along the queries; the keys have the other one.
enum class QueryAxis : int { kRows = 0, kColumns = 1 };

// The scores that a thread holds at a time, and whose they are: all that features know of a kernel.
//
// Rows are those of the plane that the thread block belongs to: queries, or (query, head) pairs
// where heads are packed. The thread's scores lie in lines, one for each of its rows. A row is
// given as its distance from the thread's first row, Block::thread_row, a key as that from its
// first key, Block::thread_key: constants once loops are unrolled.
struct ScoreShape {
  QueryAxis query_axis;
  int row_tiles;         // of the fragments, 16 rows each
  int groups;            // of the fragments, 8 columns each
  int block_q;           // rows of a tile of the thread block
  int block_kv;          // its keys
  int packed_heads;      // query heads that take turns in the rows; 1: rows are queries
  int gqa_ratio;         // query heads that share a kv head
  int strided_keys = 0;  // of a piece in StridedKeyOrder, 0: the order is KeyOrder

  ATTNJIT_INLINE_CONSTEXPR bool queries_in_rows() const { return query_axis == QueryAxis::kRows; }
  // Keys that the scores verbs see at a time.
  ATTNJIT_INLINE_CONSTEXPR int keys() const {
    return queries_in_rows() ? 8 * groups : 16 * row_tiles;
  }
  // With queries in rows a thread holds so many neighbouring keys of each span of so many keys.
  ATTNJIT_INLINE_CONSTEXPR int neighbours() const {
    return strided_keys > 0 ? StridedKeyOrder::neighbours(strided_keys) : 8;
  }
  ATTNJIT_INLINE_CONSTEXPR int span() const { return 4 * neighbours(); }
  ATTNJIT_INLINE_CONSTEXPR int lines() const {
    return queries_in_rows() ? 2 * row_tiles : 2 * groups;
  }

  // Arguments of the functions below are known once loops are unrolled, or at run time. NVRTC 13.2
  // to 13.5 then read the members of a template parameter from memory: nothing folds, and arrays
  // that the results index are kept in local memory. So the functions are callable on a temporary
  // copy only, whose members are constants: ScoreShape(kShape).line(m, n, e).

  // The line of fragment element (m, n, e), and its row.
  ATTNJIT_INLINE_CONSTEXPR int line(int m, int n, int e) const&& {
    return queries_in_rows() ? 2 * m + e / 2 : 2 * n + (e & 1);
  }
  ATTNJIT_INLINE_CONSTEXPR int row(int line) const&& {
    return queries_in_rows() ? 8 * line : 8 * (line / 2) + (line & 1);
  }
  // The key of element (m, n, e).
  ATTNJIT_INLINE_CONSTEXPR int key(int m, int n, int e) const&& {
    if (!queries_in_rows()) return 16 * m + 8 * (e / 2);
    return strided_keys > 0 ? StridedKeyOrder::offset(strided_keys, n, e) : KeyOrder::offset(n, e);
  }
  // The first row of lane `lane` in the tile of its warp, and its first key.
  ATTNJIT_INLINE_CONSTEXPR int lane_row(int lane) const&& {
    return queries_in_rows() ? lane / 4 : 2 * (lane & 3);
  }
  ATTNJIT_INLINE_CONSTEXPR int lane_key(int lane) const&& {
    if (!queries_in_rows()) return lane / 4;
    return strided_keys > 0 ? StridedKeyOrder::thread_key(strided_keys, lane)
                            : KeyOrder::thread_key(lane);
  }
};

}  // namespace attnjit::kernel

namespace attnjit::kernel {

// How a row's softmax is computed tile by tile: softmax.cuh.
enum class SoftmaxPolicy : int { kRunningMax = 0, kMaxFree = 1 };

// Everything that specialises the portable forward kernel, apart from its features. A value of
// this type is the template argument of the kernel.
struct ForwardConfig {
  DType dtype;       // of q, k, v and out: 16 bits wide
  int head_dim;      // columns of q and k, 1 ... 256
  int head_dim_v;    // columns of v and out, 1 ... 256
  int gqa_ratio;     // query heads that share one kv head
  bool aligned;      // q, k, v and out move in 16-byte pieces; else element by element
  bool scale_first;  // scale the scores before the features see them (bias, or scale <= 0)
  bool pack_heads;   // rows are the query heads of a kv head, query by query: for short queries
  int block_q;       // query rows of a thread block
  int block_kv;      // keys of a tile
  int num_stages;    // K/V buffers: 1 = K and V alternate, >= 2 = a ring of tiles
  int num_warps;
  int min_blocks;  // thread blocks per SM that registers are limited for
  SoftmaxPolicy softmax;

  ATTNJIT_CONSTEXPR int num_threads() const { return num_warps * 32; }
  // The matrix instruction takes 16 columns of q and k at a time; v follows for simplicity.
  ATTNJIT_CONSTEXPR int padded_head_dim() const { return round_up(head_dim, 16); }
  ATTNJIT_CONSTEXPR int padded_head_dim_v() const { return round_up(head_dim_v, 16); }
  // Query heads that share a thread block: row r is head r % packed_heads() of query
  // r / packed_heads().
  ATTNJIT_CONSTEXPR int packed_heads() const { return pack_heads ? gqa_ratio : 1; }
  // 16-row fragments that one warp owns.
  ATTNJIT_CONSTEXPR int row_tiles() const { return block_q / (16 * num_warps); }

  // What features see of it.
  ATTNJIT_CONSTEXPR ScoreShape scores() const {
    return {.query_axis = QueryAxis::kRows,
            .row_tiles = row_tiles(),
            .groups = block_kv / 8,
            .block_q = block_q,
            .block_kv = block_kv,
            .packed_heads = packed_heads(),
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
ATTNJIT_CONSTEXPR const char* why_invalid(const ForwardConfig& config) {
  if (config.dtype == DType::kFloat32) return "dtype must be fp16 or bf16";
  if (config.head_dim < 1 || config.head_dim > 256) return "head_dim must be 1 to 256";
  if (config.head_dim_v < 1 || config.head_dim_v > 256) return "head_dim_v must be 1 to 256";
  if (config.gqa_ratio < 1) return "gqa_ratio must be at least 1";
  if (config.aligned && (config.head_dim % 8 != 0 || config.head_dim_v % 8 != 0))
    return "aligned needs head_dim and head_dim_v to be multiples of 8";
  if (config.pack_heads && config.gqa_ratio == 1) return "pack_heads needs a gqa_ratio above 1";
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

// ---- attnjit/forward_params.h

namespace attnjit::kernel {

// Strides of one tensor, in elements; the feature axis has stride 1.
struct RowStrides {
  int64 batch, head, row;
};

// Run-time arguments of the forward kernel: nothing here needs another compile.
struct ForwardParams {
  const void* q;  // [batch, num_heads_q, seqlen_q, head_dim]
  const void* k;  // [batch, num_heads_q / gqa_ratio, seqlen_kv, head_dim]
  const void* v;  // [batch, num_heads_q / gqa_ratio, seqlen_kv, head_dim_v]
  void* out;      // [batch, num_heads_q, seqlen_q, head_dim_v]
  float* lse;     // [batch, num_heads_q, seqlen_q] or null
  // Splits of the keys, each a thread block of its own; forward_combine.cuh adds them up.
  float* partial_out;  // [row of lse][split][padded head_dim_v], used where num_splits > 1
  float* partial_lse;  // [row of lse][split], likewise
  RowStrides q_strides, k_strides, v_strides, out_strides;
  int32 num_heads_q;
  int32 seqlen_q;
  int32 seqlen_kv;
  int32 num_q_tiles;  // ceil(seqlen_q packed_heads / block_q)
  int32 num_splits;
  int32 num_planes;      // heads (kv heads where the config packs) of all batch elements
  int32 section_planes;  // planes whose row tiles take turns; 1 where num_splits > 1
  float score_scale;     // multiplies q k^T when the config says scale_first
  float exponent_scale;  // scores to log2 units: log2(e), times the scale unless scale_first
};

}  // namespace attnjit::kernel

// ---- attnjit/forward_rows.cuh

// ---- attnjit/ptx/math.cuh

// ---- attnjit/ptx/device.cuh
// How device functions are declared. The CPU executor supplies its own version of this folder.
#define ATTNJIT_DEVICE __device__ __forceinline__

namespace attnjit::kernel::ptx {

ATTNJIT_DEVICE float infinity() { return __int_as_float(0x7f800000); }

// The number of the lowest bit of `bits` that is set; there is one.
ATTNJIT_DEVICE int lowest_bit(uint32 bits) { return __ffs(static_cast<int>(bits)) - 1; }

// 2^x and log2(x) of the special function unit; at most 2 ulp off (PTX ISA, ex2 and lg2).
ATTNJIT_DEVICE float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// 1 / x; subnormal arguments count as 0, subnormal results are 0. Keeping them takes six more
// instructions.
ATTNJIT_DEVICE float reciprocal_approx(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
ATTNJIT_DEVICE float log2_approx(float x) {
  float y;
  asm("lg2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Two floats rounded to nearest even and packed, `low` in the low half.
template <DType kDType>
ATTNJIT_DEVICE uint32 pack(float low, float high) {
  uint32 packed;
  if constexpr (kDType == DType::kBFloat16) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  }
  return packed;
}

// The exact value of a 16-bit element.
template <DType kDType>
ATTNJIT_DEVICE float widen(uint16 bits) {
  if constexpr (kDType == DType::kBFloat16) {
    return __int_as_float(static_cast<int>(static_cast<uint32>(bits) << 16));
  } else {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
  }
}

// An fp32 element and its bits.
ATTNJIT_DEVICE float as_float(uint32 bits) { return __int_as_float(static_cast<int>(bits)); }
ATTNJIT_DEVICE uint32 as_bits(float value) { return static_cast<uint32>(__float_as_int(value)); }

// The number of bits that are set.
ATTNJIT_DEVICE int count_bits(uint32 bits) { return __popc(bits); }
// As many ones as `count`, from the lowest bit on; 32 for more.
ATTNJIT_DEVICE uint32 low_bits(int count) {
  uint32 bits;
  asm("bmsk.clamp.b32 %0, 0, %1;" : "=r"(bits) : "r"(count));
  return bits;
}

}  // namespace attnjit::kernel::ptx

// ---- attnjit/score/block.cuh

namespace attnjit::kernel {

// The part of the problem that one thread block works on, and the thread's place in it. Rows are
// those of the plane that the block belongs to: queries, or (query, head) pairs where the config
// packs heads.
struct Block {
  int batch;                   // or the sequence, where sequences are packed
  int head;                    // the query head, or the first of those that are packed
  int first_row, end_row;      // of the block, as far as they are in use
  int num_rows;                // of the plane, or of the sequence
  int first_query, end_query;  // that the rows belong to
  int query_len, kv_len;       // queries and keys in use of this batch element
  int seqlen_q, seqlen_kv;     // of the tensors, or of the sequence
  int thread_row;              // the thread's first row, see ScoreShape
  int thread_key;              // its first key of a tile

  // Packed sequences change these, see packed_sequences.cuh.
  int tensor_batch;                   // the index in tensors
  int q_begin, kv_begin;              // rows and keys of the tensors before its first ones
  int padded_begin, padded_rows;      // of a head's rows in the arrays of the backward
  int operand_queries, operand_keys;  // that masks and biases have
  int hidden_queries, hidden_keys;    // in use, but past those: not in query_len and kv_len

  // Where the diagonal begins that ends at the last row and key in use.
  ATTNJIT_DEVICE int bottom_right() const {
    return kv_len + hidden_keys - query_len - hidden_queries;
  }
  // Turns to a batch element of tensors with so many rows and keys, all in use.
  ATTNJIT_DEVICE void enter(int element, int queries, int keys) {
    batch = tensor_batch = element;
    seqlen_q = query_len = operand_queries = queries;
    seqlen_kv = kv_len = operand_keys = keys;
    q_begin = kv_begin = padded_begin = hidden_queries = hidden_keys = 0;
  }
};

// Whose row a row is.
struct RowOwner {
  int query, head;
};

template <int kPackedHeads>
ATTNJIT_DEVICE RowOwner owner_of(const Block& block, int row) {
  return {row / kPackedHeads, block.head + row % kPackedHeads};
}

}  // namespace attnjit::kernel

// ---- attnjit/score/feature.cuh

// ---- attnjit/tensor_map.h

namespace attnjit::kernel {

// A tensor in global memory as the copy engine sees it: address, extents, strides, box and swizzle,
// in an encoding that is the driver's own (CUtensorMap of cuda.h).
struct alignas(128) TensorMap {
  uint64 word[16];
};

}  // namespace attnjit::kernel

// ---- attnjit/tile/tile_use.h

namespace attnjit::kernel {

// The work that a tile of scores needs.
enum class TileUse : int { kSkip = 0, kMasked = 1, kPlain = 2 };

// Queries, or keys, of the tiles of a mask that are classified: a TileUse each, whatever the tiles
// of the kernels that read it.
inline constexpr int kMaskTile = 64;

}  // namespace attnjit::kernel

namespace attnjit::kernel {

// TileUse::kPlain as a type: of a tile that is known to need no mask when the kernel is compiled,
// and to lie inside of the tensors.
struct PlainTile {
  ATTNJIT_DEVICE operator TileUse() const { return TileUse::kPlain; }
};

// Keys that any query of the block may see.
struct KeyRange {
  int begin, end;
};

// What softmax knows of one row at the end.
struct RowState {
  float max;  // largest score, scale and bias included; -inf if there is none
  float sum;  // of exp(score - max); 0 marks a dead row
  // What `out` is divided by: the sum of the probabilities that multiplied V. Where these were
  // rounded against a reference other than the largest score, it is the sum of the rounded ones.
  float divisor;
};

// A feature changes scores or drops them. Its verbs do nothing unless the feature says otherwise.
//
// Those of the walk find out which tiles of keys are worked on. Those of the scores work on a tile.
// The two share nothing but what begin() sets, so that different warps may call them, each on a set
// of features of its own.
struct Feature {
  // Whether scores are changed by more than an addition: transform() and differentiate() are there.
  static constexpr bool kTransforms = false;
  // Whether scores are added to: add() is there.
  static constexpr bool kAdds = false;
  // Whether exponents can be computed from the scores that transform() and add() have not changed.
  static constexpr bool kInExponents = false;
  // Whether narrow() may leave out keys inside of the tensors; whether reads_key() may, in masked
  // tiles.
  static constexpr bool kNarrows = false, kPicksKeys = false;
  // Whether begin() looks at the head.
  static constexpr bool kPerHead = false;
  // Whether the kernel ahead may write what the feature reads.
  static constexpr bool kAwaits = false;
  // Whether tiles are those of packed sequences: find_queries() and find_keys() tell of which.
  static constexpr bool kPacksSequences = false;
  // Whether the largest scores of rows are wanted: write_max() is there.
  static constexpr bool kKeepsMaxima = false;
  // Keys of a page, where keys are paged: find_pages(), load_keys() and tile_source() are there.
  static constexpr int kPageSize = 0;

  // Sets the batch element of tile `tile` of queries, whose rows are kHeads of each, or of keys, if
  // tiles of all batch elements are numbered together. Returns the tile's number in the element.
  // Warps call it whole.
  template <int kHeads>
  ATTNJIT_DEVICE int find_queries(int&, int tile, int) const {
    return tile;
  }
  ATTNJIT_DEVICE int find_keys(int&, int tile, int) const { return tile; }

  // Whether the last keys tend to have the greatest scores of causal rows, so that a walk which
  // begins with them keeps its first reference.
  static constexpr bool kLastFirst = false;
  // Sets the lengths of the block's batch element.
  ATTNJIT_DEVICE void set_lengths(Block&) {}
  // Finds out what the feature needs to know of the block.
  ATTNJIT_DEVICE void begin(const Block&) {}

  // The walk. Narrows the keys that the block's queries may see; the threads of `Team` call it
  // together.
  template <class Team>
  ATTNJIT_DEVICE void narrow(Team, const Block&, KeyRange&) {}
  // Tells what the tile of keys `tile` needs. Warps call it whole, of one tile, where a feature
  // has a use_of_lane() for lanes that ask about a tile each.
  ATTNJIT_DEVICE TileUse use(const Block&, int) { return TileUse::kPlain; }
  // Whether K and V of `key` may be read.
  ATTNJIT_DEVICE bool reads_key(int) const { return true; }

  // Asks for what fetch() will read of the tile that begins at `first_key`, as far as L2; one
  // thread does.
  ATTNJIT_DEVICE void prefetch_tile(const Block&, int, const TensorMap&) {}

  // Starts loading the tile of a bias that begins at `first_key` and block.first_query to shared
  // memory at `tile`, which lands at the mbarrier `full`; one thread does.
  ATTNJIT_DEVICE void load_tile(const Block&, int, const TensorMap&, uint32, uint32) {}
  // Learns where the tile at hand has landed.
  ATTNJIT_DEVICE void receive_tile(uint32) {}

  // The scores of a tile that begins at `first_key`, in the order of the calls. Starts reading what
  // the others will want.
  ATTNJIT_DEVICE void fetch(const Block&, int, TileUse) {}
  // Changes scores in place that have no scale yet.
  template <class S>
  ATTNJIT_DEVICE void transform(S&) {}
  // The same of scaled ones, and multiplies `slopes` by the derivative.
  template <class S>
  ATTNJIT_DEVICE void differentiate(S&, S&) {}
  // Scales the scores and adds to them, where kAdds.
  template <class S>
  ATTNJIT_DEVICE void add(const Block&, S&, float, int) {}
  // The same score by score, for whoever goes through them anyway: begin_add() once, then each
  // score times its scale with all that is added to it.
  ATTNJIT_DEVICE void begin_add(const Block&, int) {}
  ATTNJIT_DEVICE float added(float score, float, int, int) const { return score; }
  // These stand for transform() and add(), score by score on the way to the exponent: scores of the
  // tile that begins at `first_key` are transformed() and multiplied by exponent_factor(), and the
  // addends come on top of `start` in log2 units: of a line, and of each of its keys.
  // in_exponents_fit() tells after the tile whether that was as exact as the other way.
  ATTNJIT_DEVICE void begin_exponents(const Block&, int) {}
  ATTNJIT_DEVICE float exponent_factor(float factor) const { return factor; }
  ATTNJIT_DEVICE float transformed(float score) { return score; }
  ATTNJIT_DEVICE float line_addend(float start, int) const { return start; }
  ATTNJIT_DEVICE float addend(float start, int, int) const { return start; }
  ATTNJIT_DEVICE bool in_exponents_fit() const { return true; }
  // Sets dropped scores to -inf; called for masked tiles only.
  template <class S>
  ATTNJIT_DEVICE void mask(const Block&, S&, int) {}
  // The same in bits (score/kept_keys.cuh), in place of mask().
  template <class K>
  ATTNJIT_DEVICE void keep(const Block&, K&, int) {}
  // Last word on a row.
  ATTNJIT_DEVICE void finish(const Block&, const RowOwner&, RowState&) {}
  // Adds to a ClosedRow what has no key; called once for a row.
  template <class Row>
  ATTNJIT_DEVICE void close(const Block&, Row&) {}
};

// All features of a kernel as one.
template <class... Features>
struct FeatureSet : Features... {
  static constexpr bool kTransforms = (Features::kTransforms || ...);
  static constexpr bool kAdds = (Features::kAdds || ...);
  // Both at once need more registers than there are.
  static constexpr bool kInExponents =
      kTransforms != kAdds &&
      ((Features::kInExponents || !(Features::kTransforms || Features::kAdds)) && ...);
  static constexpr bool kNarrows = (Features::kNarrows || ...);
  static constexpr bool kPicksKeys = (Features::kPicksKeys || ...);
  static constexpr bool kPerHead = (Features::kPerHead || ...);
  static constexpr bool kAwaits = (Features::kAwaits || ...);
  static constexpr bool kPacksSequences = (Features::kPacksSequences || ...);
  static constexpr bool kKeepsMaxima = (Features::kKeepsMaxima || ...);
  static constexpr bool kLastFirst = (Features::kLastFirst || ...);
  static constexpr int kPageSize = (0 + ... + Features::kPageSize);

  ATTNJIT_DEVICE explicit FeatureSet(Features... features) : Features(features)... {}

  template <int kHeads>
  ATTNJIT_DEVICE int find_queries(int& batch, int tile, int size) const {
    ((tile = Features::template find_queries<kHeads>(batch, tile, size)), ...);
    return tile;
  }
  ATTNJIT_DEVICE int find_keys(int& batch, int tile, int size) const {
    ((tile = Features::find_keys(batch, tile, size)), ...);
    return tile;
  }
  ATTNJIT_DEVICE void set_lengths(Block& block) { (Features::set_lengths(block), ...); }
  ATTNJIT_DEVICE void begin(const Block& block) { (Features::begin(block), ...); }
  template <class Team>
  ATTNJIT_DEVICE void narrow(Team team, const Block& block, KeyRange& keys) {
    (Features::narrow(team, block, keys), ...);
  }
  ATTNJIT_DEVICE TileUse use(const Block& block, int tile) {
    TileUse lowest = TileUse::kPlain;
    ((lowest = lower(lowest, Features::use(block, tile))), ...);
    return lowest;
  }
  ATTNJIT_DEVICE TileUse use_of_lane(const Block& block, int tile) {
    TileUse lowest = TileUse::kPlain;
    ((lowest = lower(lowest, use_of_lane<Features>(block, tile))), ...);
    return lowest;
  }
  ATTNJIT_DEVICE bool reads_key(int key) const { return (Features::reads_key(key) && ...); }
  ATTNJIT_DEVICE void prefetch_tile(const Block& block, int first_key, const TensorMap& bias) {
    (Features::prefetch_tile(block, first_key, bias), ...);
  }
  ATTNJIT_DEVICE void load_tile(const Block& block, int first_key, const TensorMap& bias,
                                uint32 tile, uint32 full) {
    (Features::load_tile(block, first_key, bias, tile, full), ...);
  }
  ATTNJIT_DEVICE void receive_tile(uint32 tile) { (Features::receive_tile(tile), ...); }
  template <class Use>
  ATTNJIT_DEVICE void fetch(const Block& block, int first_key, Use use) {
    (Features::fetch(block, first_key, use), ...);
  }
  template <class S>
  ATTNJIT_DEVICE void transform(S& scores) {
    (Features::transform(scores), ...);
  }
  template <class S>
  ATTNJIT_DEVICE void differentiate(S& scores, S& slopes) {
    slopes = 1.0f;
    (Features::differentiate(scores, slopes), ...);
  }
  // The first feature that adds scales the scores as well, in one fused product.
  template <class S>
  ATTNJIT_DEVICE void add(const Block& block, S& scores, float scale, int first_key) {
    ((Features::add(block, scores, scale, first_key), scale = Features::kAdds ? 1.0f : scale), ...);
    if constexpr (!kAdds) scores *= scale;
  }
  ATTNJIT_DEVICE void begin_add(const Block& block, int first_key) {
    (Features::begin_add(block, first_key), ...);
  }
  ATTNJIT_DEVICE float added(float score, float scale, int line, int key) const {
    ((score = Features::added(score, scale, line, key), scale = Features::kAdds ? 1.0f : scale),
     ...);
    return kAdds ? score : score * scale;
  }
  ATTNJIT_DEVICE void begin_exponents(const Block& block, int first_key) {
    (Features::begin_exponents(block, first_key), ...);
  }
  ATTNJIT_DEVICE float exponent_factor(float factor) const {
    ((factor = Features::exponent_factor(factor)), ...);
    return factor;
  }
  ATTNJIT_DEVICE float transformed(float score) {
    ((score = Features::transformed(score)), ...);
    return score;
  }
  ATTNJIT_DEVICE float line_addend(float start, int line) const {
    ((start = Features::line_addend(start, line)), ...);
    return start;
  }
  ATTNJIT_DEVICE float addend(float start, int line, int key) const {
    ((start = Features::addend(start, line, key)), ...);
    return start;
  }
  ATTNJIT_DEVICE bool in_exponents_fit() const { return (Features::in_exponents_fit() && ...); }
  template <class S>
  ATTNJIT_DEVICE void mask(const Block& block, S& scores, int first_key) {
    (Features::mask(block, scores, first_key), ...);
  }
  template <class K>
  ATTNJIT_DEVICE void keep(const Block& block, K& kept, int first_key) {
    (Features::keep(block, kept, first_key), ...);
  }
  ATTNJIT_DEVICE void finish(const Block& block, const RowOwner& owner, RowState& row) {
    (Features::finish(block, owner, row), ...);
  }
  template <class Row>
  ATTNJIT_DEVICE void close(const Block& block, Row& row) {
    (Features::close(block, row), ...);
  }

 private:
  template <class F>
  ATTNJIT_DEVICE TileUse use_of_lane(const Block& block, int tile) {
    if constexpr (requires(F & f) { f.use_of_lane(block, tile); }) {
      return F::use_of_lane(block, tile);
    } else {
      return F::use(block, tile);
    }
  }
  ATTNJIT_DEVICE static TileUse lower(TileUse a, TileUse b) { return a < b ? a : b; }
};

}  // namespace attnjit::kernel

// ---- attnjit/tile/schedule.cuh

// ---- attnjit/ptx/thread.cuh

namespace attnjit::kernel::ptx {

ATTNJIT_DEVICE int thread_index() { return static_cast<int>(threadIdx.x); }
ATTNJIT_DEVICE int lane_index() { return static_cast<int>(threadIdx.x & 31); }
// Uniform over a warp: the shuffle lets the compiler keep it in a uniform register.
ATTNJIT_DEVICE int warp_index() {
  return __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x >> 5), 0);
}
ATTNJIT_DEVICE uint32 block_index() { return blockIdx.x; }

}  // namespace attnjit::kernel::ptx

namespace attnjit::kernel {

// A place in the grid: one part of a plane's work.
struct PlanePart {
  uint32 plane, part;
};

// Place `index`, a thread block's own unless it is given. Places go through a section of planes
// before the next one, and within it through part 0 of all its planes, then part 1: what takes
// longest begins first, and what a section reads stays in L2. `grid` has num_planes and
// section_planes.
template <class Grid>
ATTNJIT_DEVICE PlanePart find_plane_part(const Grid& grid, uint32 parts_per_plane,
                                         uint32 index = ptx::block_index()) {
  const uint32 first_plane = index / (parts_per_plane * grid.section_planes) * grid.section_planes;
  const uint32 rest = index - first_plane * parts_per_plane;
  const uint32 left = grid.num_planes - first_plane;
  const uint32 most = grid.section_planes;
  const uint32 planes = left < most ? left : most;
  return {first_plane + rest % planes, rest / planes};
}

}  // namespace attnjit::kernel

// The rows of a forward, whichever its main loop: which ones a block of rows has, which keys they
// walk over, and what is left of a row in the end.
namespace attnjit::kernel {

// Address of a head of a tensor.
template <class T>
ATTNJIT_DEVICE T* head_of(T* base, const RowStrides& strides, int batch, int head) {
  return base + batch * strides.batch + head * strides.head;
}
// The same of a packed sequence, whose first row or key is `begin`. Otherwise that is 0, which the
// compiler learns too late to order its sums as if nothing were added.
template <bool kPacked, class T>
ATTNJIT_DEVICE T* rows_of(T* base, const RowStrides& strides, const Block& block, int head,
                          int begin) {
  T* const first = head_of(base, strides, block.tensor_batch, head);
  if constexpr (kPacked) return first + begin * strides.row;
  return first;
}

// The place of a block of rows in the tensors, and which share of its keys is meant.
struct RowsPlace {
  int batch, head;  // of heads that are packed the first
  int q_tile, split;
};

// That of a part of a plane. The parts are its row tiles, each num_splits times. Later rows come
// first: under a causal mask they take longest. Warps call it whole.
template <int kBlockQ, int kHeads, class Features>
ATTNJIT_DEVICE RowsPlace find_rows(const ForwardParams& params, const Features& features,
                                   const PlanePart& work) {
  const int planes_per_batch = params.num_heads_q / kHeads;
  RowsPlace place = {static_cast<int>(work.plane / planes_per_batch),
                     static_cast<int>(work.plane % planes_per_batch) * kHeads,
                     params.num_q_tiles - 1 - static_cast<int>(work.part / params.num_splits),
                     static_cast<int>(work.part % params.num_splits)};
  place.q_tile = features.template find_queries<kHeads>(place.batch, place.q_tile, kBlockQ);
  return place;
}

// The block of rows at `place`.
template <int kBlockQ, int kHeads, class Features>
ATTNJIT_DEVICE Block locate_rows(const ForwardParams& params, Features& features,
                                 const RowsPlace& place) {
  Block block;
  block.enter(place.batch, params.seqlen_q, params.seqlen_kv);
  block.head = place.head;
  features.set_lengths(block);
  block.num_rows = block.seqlen_q * kHeads;
  block.first_row = place.q_tile * kBlockQ;
  const int rows_in_use = block.query_len * kHeads;
  const int end = block.first_row + kBlockQ;
  block.end_row = end < rows_in_use ? end : rows_in_use;
  block.first_query = block.first_row / kHeads;
  block.end_query = (block.end_row + kHeads - 1) / kHeads;
  return block;
}

// Tiles of keys, from the first to one past the last.
struct TileRange {
  int next, end;
};

// Those of a split of the tiles that hold `keys`.
ATTNJIT_DEVICE TileRange split_tiles(const KeyRange& keys, int block_kv, int num_splits,
                                     int split) {
  TileRange tiles{keys.begin / block_kv, (keys.end + block_kv - 1) / block_kv};
  if (num_splits > 1 && tiles.next < tiles.end) {
    const int share = (tiles.end - tiles.next + num_splits - 1) / num_splits;
    tiles.next += split * share;
    if (tiles.next + share < tiles.end) tiles.end = tiles.next + share;
  }
  return tiles;
}

// A row after its last tile: its owner, its state, and what its output is to be multiplied by.
struct ClosedRow {
  RowOwner owner;
  float keys_lse;  // of the keys alone; -inf for a dead row
  float lse;
  float inverse;  // of the keys' sum
  float share;    // of the keys in what is summed up; the product of the two may be subnormal
  ATTNJIT_DEVICE float scaled(float value) const {
    // A select, not a product with 0: the sum of a dead row may hold NaN.
    return keys_lse == -ptx::infinity() ? 0.0f : value * inverse * share;
  }
};

// `row` is what the softmax knows of the row that is `distance` rows after the thread's first one.
template <int kHeads, class Features>
ATTNJIT_DEVICE ClosedRow close_row(Features& features, const Block& block, RowState row,
                                   int distance) {
  const RowOwner owner = owner_of<kHeads>(block, block.thread_row + distance);
  features.finish(block, owner, row);
  if (row.sum == 0.0f) return {owner, -ptx::infinity(), -ptx::infinity(), 0.0f, 1.0f};
  const float lse = fmaf(ptx::log2_approx(row.sum), kLn2, row.max);
  return {owner, lse, lse, ptx::reciprocal_approx(row.divisor), 1.0f};
}

template <bool kPacked>
ATTNJIT_DEVICE int64 lse_index(const ForwardParams& params, const Block& block,
                               const RowOwner& owner) {
  if constexpr (kPacked) {
    return static_cast<int64>(owner.head) * params.seqlen_q + block.q_begin + owner.query;
  }
  return (static_cast<int64>(block.batch) * params.num_heads_q + owner.head) * block.seqlen_q +
         owner.query;
}

}  // namespace attnjit::kernel

// ---- attnjit/ptx/memory.cuh

// Every access to global and shared memory. Shared memory is addressed by 32-bit byte addresses
// from shared_base() on.
namespace attnjit::kernel::ptx {

// 8 bytes.
struct alignas(8) Vector8 {
  uint32 word[2];
};
// 16 bytes, the widest access.
struct alignas(16) Vector16 {
  uint32 word[4];
};

ATTNJIT_DEVICE uint32 shared_base() {
  extern __shared__ __align__(1024) unsigned char dynamic_shared_memory[];
  return static_cast<uint32>(__cvta_generic_to_shared(dynamic_shared_memory));
}

// A read of memory that no thread writes during this kernel.
template <class T>
ATTNJIT_DEVICE T load_global(const T* address) {
  return __ldg(address);
}
ATTNJIT_DEVICE Vector16 load_global(const Vector16* address) {
  Vector16 v;
  asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
               : "l"(address));
  return v;
}

// Reads of memory that a kernel ahead of this one may still have written after this one began.
ATTNJIT_DEVICE uint8 load_global_written(const uint8* address) {
  uint32 value;
  asm volatile("ld.global.u8 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
  return static_cast<uint8>(value);
}
ATTNJIT_DEVICE uint16 load_global_written(const uint16* address) {
  uint16 value;
  asm volatile("ld.global.u16 %0, [%1];" : "=h"(value) : "l"(address) : "memory");
  return value;
}
ATTNJIT_DEVICE float load_global_written(const float* address) {
  float value;
  asm volatile("ld.global.f32 %0, [%1];" : "=f"(value) : "l"(address) : "memory");
  return value;
}
ATTNJIT_DEVICE uint32 load_global_written(const uint32* address) {
  uint32 value;
  asm volatile("ld.global.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
  return value;
}
ATTNJIT_DEVICE Vector8 load_global_written(const Vector8* address) {
  Vector8 v;
  asm volatile("ld.global.v2.u32 {%0, %1}, [%2];"
               : "=r"(v.word[0]), "=r"(v.word[1])
               : "l"(address)
               : "memory");
  return v;
}
ATTNJIT_DEVICE Vector16 load_global_written(const Vector16* address) {
  Vector16 v;
  asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
               : "l"(address)
               : "memory");
  return v;
}

// A read of memory that no thread writes, begun where it stands: ptxas moves load_global() behind
// barriers and products that follow.
template <class Vector>
ATTNJIT_DEVICE Vector load_global_now(const Vector* address) {
  return load_global_written(address);
}

template <class T>
ATTNJIT_DEVICE void store_global(T* address, T value) {
  *address = value;
}
ATTNJIT_DEVICE void store_global(Vector16* address, Vector16 v) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(address), "r"(v.word[0]),
               "r"(v.word[1]), "r"(v.word[2]), "r"(v.word[3])
               : "memory");
}

ATTNJIT_DEVICE void store_global(Vector8* address, Vector8 v) {
  asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(address), "r"(v.word[0]), "r"(v.word[1])
               : "memory");
}

ATTNJIT_DEVICE Vector16 load_shared_16(uint32 address) {
  Vector16 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
               : "r"(address)
               : "memory");
  return v;
}
ATTNJIT_DEVICE void store_shared_16(uint32 address, Vector16 v) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(v.word[0]),
               "r"(v.word[1]), "r"(v.word[2]), "r"(v.word[3])
               : "memory");
}
ATTNJIT_DEVICE Vector8 load_shared_8(uint32 address) {
  Vector8 v;
  asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];"
               : "=r"(v.word[0]), "=r"(v.word[1])
               : "r"(address)
               : "memory");
  return v;
}
ATTNJIT_DEVICE uint32 load_shared_4(uint32 address) {
  uint32 value;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
  return value;
}
ATTNJIT_DEVICE void store_shared_4(uint32 address, uint32 value) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}

// Starts a copy of 16 bytes from global to shared memory; all zeros if not `valid`, and then
// nothing is read.
ATTNJIT_DEVICE void copy_async_16(uint32 shared, const void* global, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(global),
               "r"(valid ? 16 : 0)
               : "memory");
}
// Closes the group of copies that this thread has started since the last call.
ATTNJIT_DEVICE void copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until at most kPending of this thread's groups are unfinished.
template <int kPending>
ATTNJIT_DEVICE void copy_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace attnjit::kernel::ptx

// ---- attnjit/tile/copy.cuh

// ---- attnjit/tile/shared_tile.cuh

namespace attnjit::kernel {

// A [kRows][kColumns] tile of 16-bit elements in shared memory; kColumns % 16 == 0.
//
// Columns are cut into slabs of 64 (one 128-byte line per row), then one of 32 and one of 16 as
// the width needs. A 16-byte chunk of a slab moves to chunk ^ twist(row):
//
//     twist(row) = (row & 7) ^ ((row >> 2) & 6)
//
// takes eight different values over eight consecutive rows (Q, O, and the copies) and over the
// rows {r, r + 1} + {0, 8, 16, 24} that a key fragment gathers (tile/key_order.h), so neither
// has bank conflicts. Narrow slabs put several rows in a line and use the high bits of the twist.
template <int kRows, int kColumns>
struct SharedTile {
  static constexpr int kChunks = kColumns / 8;
  static constexpr int kBytes = kRows * kColumns * 2;
  uint32 base;  // a multiple of 128: a chunk is a bit pattern above it

  ATTNJIT_DEVICE static int twist(int row) { return (row & 7) ^ ((row >> 2) & 6); }

  // Byte address of columns [8 chunk, 8 chunk + 8) of `row`. The twist is folded into the row's
  // address, so that a chunk known at compile time costs one xor.
  ATTNJIT_DEVICE uint32 address(int row, int chunk) const {
    constexpr int kWide = kChunks & ~7;
    if (kWide == kChunks || chunk < kWide) {
      const uint32 line = base + row * 128 + (twist(row) << 4);
      return (line ^ ((chunk & 7) << 4)) + (chunk >> 3) * (kRows * 128);
    }
    const uint32 rest = base + kWide * (kRows * 16);
    if ((kChunks & 4) != 0 && chunk < kWide + 4) {
      const uint32 line = rest + row * 64 + (twist(row) >> 1 << 4);
      return line ^ ((chunk & 3) << 4);
    }
    const uint32 line = rest + (kChunks & 4) * (kRows * 16) + row * 32 + (twist(row) >> 2 << 4);
    return line ^ ((chunk & 1) << 4);
  }
};

}  // namespace attnjit::kernel

namespace attnjit::kernel {

// How the threads of a block walk the 16-byte chunks of a tile: neighbours take neighbouring
// chunks of a row, so global accesses are coalesced. visit(row, chunk) for each chunk. kUnroll is
// for visits that are one instruction, and of those at most eight: the addresses of more cost wide
// heads registers that they do not have.
template <int kRows, int kChunks, int kThreads, bool kUnroll, class Visit>
ATTNJIT_DEVICE void for_each_chunk(Visit visit) {
  constexpr int kRowsPerPass = kThreads / kChunks;
  constexpr int kPasses = (kRows + kRowsPerPass - 1) / kRowsPerPass;
  constexpr int kUnrolled = !kUnroll ? 1 : kPasses <= 8 ? kPasses : 8;
  const int thread = ptx::thread_index();
  const int row = thread / kChunks;
  const int chunk = thread % kChunks;
  if (kThreads % kChunks != 0 && row >= kRowsPerPass) return;
#pragma unroll kUnrolled
  for (int first = 0; first < kRows; first += kRowsPerPass) {
    if (kRows % kRowsPerPass == 0 || first + row < kRows) visit(first + row, chunk);
  }
}

// Eight elements of a row from `column` on, read one by one; zero from `columns` on.
ATTNJIT_DEVICE ptx::Vector16 load_elements(const uint16* row, int column, int columns) {
  ptx::Vector16 v = {};
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    if (column + i < columns) {
      v.word[i / 2] |= static_cast<uint32>(ptx::load_global(row + column + i)) << (16 * (i & 1));
    }
  }
  return v;
}

// Starts loading a chunk of a row at `address`, of which kColumns are valid; zeros unless `valid`.
template <bool kAligned, int kColumns, int kRows, int kPadded>
ATTNJIT_DEVICE void load_chunk(const SharedTile<kRows, kPadded>& tile, int row, int chunk,
                               const uint16* address, bool valid) {
  if constexpr (kAligned) {
    ptx::copy_async_16(tile.address(row, chunk), address + chunk * 8, valid);
  } else {
    ptx::store_shared_16(tile.address(row, chunk),
                         load_elements(address, chunk * 8, valid ? kColumns : 0));
  }
}

// Rows of a tile that are kColumns wide which one pass of the threads covers.
template <int kThreads, int kColumns>
constexpr int kRowsOfPass = kThreads / (kColumns / 8);

// Starts loading kCount rows of `tile`, from `first` on, from the rows of 16-bit elements at
// source(row), of which kColumns are valid. Rows for which keep(row) is false, and columns from
// kColumns on, become zero and are not read. The caller commits, waits and synchronises.
template <bool kAligned, int kColumns, int kThreads, int kCount, int kRows, int kPadded,
          class Source, class Keep>
ATTNJIT_DEVICE void load_rows(const SharedTile<kRows, kPadded>& tile, int first, Source source,
                              Keep keep) {
  for_each_chunk<kCount, kPadded / 8, kThreads, kAligned>([&](int row, int chunk) {
    const bool valid = chunk * 8 < kColumns && keep(first + row);
    load_chunk<kAligned, kColumns>(tile, first + row, chunk, source(first + row), valid);
  });
}

// The same of all rows.
template <bool kAligned, int kColumns, int kThreads, int kRows, int kPadded, class Source,
          class Keep>
ATTNJIT_DEVICE void load_tile(const SharedTile<kRows, kPadded>& tile, Source source, Keep keep) {
  load_rows<kAligned, kColumns, kThreads, kRows>(tile, 0, source, keep);
}

// Writes the first `rows` rows and kColumns columns of `tile` to target(row).
template <bool kAligned, int kColumns, int kThreads, int kRows, int kPadded, class Target>
ATTNJIT_DEVICE void store_tile(const SharedTile<kRows, kPadded>& tile, Target target, int rows) {
  for_each_chunk<kRows, kPadded / 8, kThreads, kAligned>([&](int row, int chunk) {
    if (row >= rows || chunk * 8 >= kColumns) return;
    const ptx::Vector16 v = ptx::load_shared_16(tile.address(row, chunk));
    uint16* address = target(row) + chunk * 8;
    if constexpr (kAligned) {
      ptx::store_global(reinterpret_cast<ptx::Vector16*>(address), v);
    } else {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        if (chunk * 8 + i < kColumns) {
          ptx::store_global(address + i, static_cast<uint16>(v.word[i / 2] >> (16 * (i & 1))));
        }
      }
    }
  });
}

}  // namespace attnjit::kernel

// ---- attnjit/tile/team.cuh

// ---- attnjit/ptx/sync.cuh

namespace attnjit::kernel::ptx {

// Barrier of the whole block; orders its shared and global accesses.
ATTNJIT_DEVICE void block_sync() { __syncthreads(); }
// Barrier of the whole block that also tells whether `value` holds for any thread.
ATTNJIT_DEVICE bool block_any(bool value) { return __syncthreads_or(value) != 0; }

// Lets a kernel that overlaps this one begin; what this one still writes, it waits for.
ATTNJIT_DEVICE void let_next_kernel_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
// Waits until the kernels ahead have ended and their writes can be read.
ATTNJIT_DEVICE void wait_for_previous_kernel() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Bit i of the result is lane i's `value`.
ATTNJIT_DEVICE uint32 warp_ballot(bool value) { return __ballot_sync(0xffffffffu, value); }

// Whether `value` holds for all lanes.
ATTNJIT_DEVICE bool warp_all(bool value) { return __all_sync(0xffffffffu, value) != 0; }

// Reductions over the four lanes that hold one row of an accumulator fragment.
ATTNJIT_DEVICE float quad_max(float value) {
  value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, 1));
  return fmaxf(value, __shfl_xor_sync(0xffffffffu, value, 2));
}
ATTNJIT_DEVICE float quad_sum(float value) {
  value += __shfl_xor_sync(0xffffffffu, value, 1);
  return value + __shfl_xor_sync(0xffffffffu, value, 2);
}

// Reductions over all lanes; every lane receives the result.
ATTNJIT_DEVICE float warp_max(float value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, distance));
  }
  return value;
}
ATTNJIT_DEVICE float warp_sum(float value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, distance);
  }
  return value;
}

}  // namespace attnjit::kernel::ptx

namespace attnjit::kernel {

// Threads that call a function together: the kThreads of a thread block.
template <int kThreads>
struct BlockTeam {
  static constexpr int kSize = kThreads;
  ATTNJIT_DEVICE int index() const { return ptx::thread_index(); }
  // A barrier; orders the team's accesses to memory.
  ATTNJIT_DEVICE void sync() const { ptx::block_sync(); }
  // Whether `value` holds for any thread; a barrier too.
  ATTNJIT_DEVICE bool any(bool value) const { return ptx::block_any(value); }
};

// A thread by itself.
struct SingleThread {
  static constexpr int kSize = 1;
  ATTNJIT_DEVICE int index() const { return 0; }
  ATTNJIT_DEVICE bool any(bool value) const { return value; }
};

// A whole warp.
struct WarpTeam {
  static constexpr int kSize = 32;
  ATTNJIT_DEVICE int index() const { return ptx::lane_index(); }
  ATTNJIT_DEVICE bool any(bool value) const { return ptx::warp_ballot(value) != 0; }
};

}  // namespace attnjit::kernel

// ---- attnjit/tile/tile_pages.cuh

// ---- attnjit/ptx/shuffle.cuh

namespace attnjit::kernel::ptx {

// The value that `lane` holds; lanes may ask for different ones.
ATTNJIT_DEVICE uint32 warp_broadcast(uint32 value, int lane) {
  return __shfl_sync(0xffffffffu, value, lane);
}

// The sum over the eight lanes that hold the same columns of an accumulator fragment.
ATTNJIT_DEVICE float column_sum(float value) {
#pragma unroll
  for (int distance = 4; distance < 32; distance *= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, distance);
  }
  return value;
}

}  // namespace attnjit::kernel::ptx

namespace attnjit::kernel {

// The pages that hold a tile of kKeys keys, where pages have kSize each. A lane of a warp has the
// number of every 32nd of them, so that one access to the table brings all.
template <int kKeys, int kSize>
struct TilePages {
  // A tile begins anywhere in a page unless one is a part of the other.
  static constexpr int kCount = kSize % kKeys == 0   ? 1
                                : kKeys % kSize == 0 ? kKeys / kSize
                                                     : ceil_div(kKeys - 1, kSize) + 1;
  static constexpr int kWords = ceil_div(kCount, 32);

  uint32 word[kWords];

  // The page of the tile that `lane` has in a word; a single one is known to all.
  ATTNJIT_DEVICE static int index(int i, int lane) { return kCount == 1 ? 0 : 32 * i + lane; }
  // The number of page `index` of the tile; lanes may ask for different ones. Warps call it whole.
  ATTNJIT_DEVICE int at(int index) const {
    if constexpr (kCount == 1) return static_cast<int>(word[0]);
    uint32 page = ptx::warp_broadcast(word[0], index & 31);
#pragma unroll
    for (int i = 1; i < kWords; ++i) {
      const uint32 other = ptx::warp_broadcast(word[i], index & 31);
      page = index / 32 == i ? other : page;
    }
    return static_cast<int>(page);
  }
};

// A tile of one head of a pool.
template <int kKeys, int kSize>
struct PagedTile {
  int first_key, head;
  TilePages<kKeys, kSize> pages;
};

}  // namespace attnjit::kernel

namespace attnjit::kernel {

// The rows and keys of a thread block of the portable forward: where they are, which tiles of keys
// count, and how tiles get to shared memory,
//
//   [ Q, at the end O | K: num_stages tiles | V: num_stages tiles ]
//
// swizzled as tile/shared_tile.cuh has it.
template <ForwardConfig kConfig, class Features, ScoreShape kShape>
struct ForwardTiles {
  static constexpr int kThreads = kConfig.num_threads();
  static constexpr int kRowTiles = kConfig.row_tiles();
  static constexpr int kStages = kConfig.num_stages;
  static constexpr int kHeads = kConfig.packed_heads();
  static constexpr bool kPacked = Features::kPacksSequences;
  static constexpr bool kPaged = Features::kPageSize > 0;
  using Team = BlockTeam<kThreads>;
  using QTile = SharedTile<kConfig.block_q, kConfig.padded_head_dim()>;
  using OutTile = SharedTile<kConfig.block_q, kConfig.padded_head_dim_v()>;
  using KTile = SharedTile<kConfig.block_kv, kConfig.padded_head_dim()>;
  using VTile = SharedTile<kConfig.block_kv, kConfig.padded_head_dim_v()>;

  // A tile of keys to be worked on; none after the last.
  struct PlainJob {
    int tile;
    TileUse use;
    ATTNJIT_DEVICE bool exists() const { return use != TileUse::kSkip; }
  };
  struct PagedJob : PlainJob {
    TilePages<kConfig.block_kv, Features::kPageSize> pages;
  };
  using Job = TypeIf<kPaged, PagedJob, PlainJob>;
  struct Nothing {};

  const ForwardParams& params;
  Features features;
  Block block;
  KeyRange keys;
  TileRange tiles;  // of the block's share, those that are left
  [[no_unique_address]] TypeIf<kPaged, Job, Nothing> ahead;  // the next one, where keys are paged
  const uint16 *k, *v;                                       // of the block's kv head

  ATTNJIT_DEVICE ForwardTiles(const ForwardParams& p, const Features& f) : params(p), features(f) {}

  ATTNJIT_DEVICE QTile q_tile() const { return {ptx::shared_base()}; }
  ATTNJIT_DEVICE OutTile out_tile() const { return {ptx::shared_base()}; }
  ATTNJIT_DEVICE KTile k_tile(int slot) const {
    return {ptx::shared_base() + kConfig.q_region_bytes() + slot * kConfig.k_bytes()};
  }
  ATTNJIT_DEVICE VTile v_tile(int slot) const {
    return {ptx::shared_base() + kConfig.q_region_bytes() + kStages * kConfig.k_bytes() +
            slot * kConfig.v_bytes()};
  }

  // The block's share of the keys. Computed anew where it is wanted: a register through the main
  // loop is worth more.
  ATTNJIT_DEVICE int split() const {
    return static_cast<int>(ptx::block_index() % params.num_splits);
  }

  ATTNJIT_DEVICE void locate() {
    block = locate_rows<kConfig.block_q, kHeads>(
        params, features,
        find_rows<kConfig.block_q, kHeads>(
            params, features, find_plane_part(params, params.num_q_tiles * params.num_splits)));
    const int lane = ptx::lane_index();
    block.thread_row =
        block.first_row + ptx::warp_index() * 16 * kRowTiles + ScoreShape(kShape).lane_row(lane);
    block.thread_key = ScoreShape(kShape).lane_key(lane);
    const int kv_head = block.head / kConfig.gqa_ratio;
    k = keys_of(params.k, params.k_strides, kv_head);
    v = keys_of(params.v, params.v_strides, kv_head);
    features.begin(block);
    keys = {0, block.kv_len};
    features.narrow(Team(), block, keys);
    tiles = split_tiles(keys, kConfig.block_kv, params.num_splits, split());
  }

  // Address of a kv head: of the block's batch element, or in the first of all pages.
  ATTNJIT_DEVICE const uint16* keys_of(const void* base, const RowStrides& strides,
                                       int kv_head) const {
    const auto* const first = static_cast<const uint16*>(base);
    if constexpr (kPaged) return head_of(first, strides, 0, kv_head);
    return rows_of<kPacked>(first, strides, block, kv_head, block.kv_begin);
  }

  ATTNJIT_DEVICE PlainJob find_job() {
    while (tiles.next < tiles.end) {
      const int tile = Features::kLastFirst ? --tiles.end : tiles.next++;
      const TileUse use = features.use(block, tile);
      if (use != TileUse::kSkip) return {tile, use};
    }
    return {0, TileUse::kSkip};
  }
  ATTNJIT_DEVICE Job next_job() {
    if constexpr (kPaged) {
      return ahead;
    } else {
      return find_job();
    }
  }
  // Finds the job after the one whose copies have begun, where keys are paged: its pages come from
  // memory, and are wanted when its own copies begin.
  ATTNJIT_DEVICE void look_ahead() {
    if constexpr (kPaged) {
      ahead = {find_job(), {}};
      if (!ahead.exists()) return;
      ahead.pages =
          features.template find_pages<kConfig.block_kv>(ahead.tile * kConfig.block_kv, keys);
    }
  }

  // Addresses of rows of the block's tile in a tensor, as a function of the row.
  template <class T>
  ATTNJIT_DEVICE auto row_address(T* base, const RowStrides& strides) const {
    T* const first = rows_of<kPacked>(base, strides, block, block.head, block.q_begin) +
                     (kHeads == 1 ? block.first_row * strides.row : 0);
    return [=, this](int row) {
      if constexpr (kHeads == 1) return first + row * strides.row;
      const RowOwner owner = owner_of<kHeads>(block, block.first_row + row);
      return first + owner.query * strides.row + (owner.head - block.head) * strides.head;
    };
  }
  ATTNJIT_DEVICE void load_q() {
    load_tile<kConfig.aligned, kConfig.head_dim, kThreads>(
        q_tile(), row_address(static_cast<const uint16*>(params.q), params.q_strides),
        [&](int row) { return block.first_row + row < block.end_row; });
  }
  // Keys that no query of the block sees are not read but zeroed: whatever is stored there, a
  // NaN included, would reach the output as 0 * NaN.
  template <int kColumns, class Tile>
  ATTNJIT_DEVICE void load_keys(const Tile& tile, const uint16* head, const RowStrides& strides,
                                const Job& job) {
    const int first = job.tile * kConfig.block_kv;
    const auto seen = [&](int row) {
      const int key = first + row;
      return key >= keys.begin && key < keys.end && features.reads_key(key);
    };
    const auto source = [row_stride = strides.row, source = head + first * strides.row](int row) {
      return source + row * row_stride;
    };
    const auto load = [&](auto keep) {
      if constexpr (kPaged) {
        features.template load_keys<kConfig.aligned, kColumns, kThreads>(tile, job.pages, first,
                                                                         head, strides, keep);
      } else {
        load_tile<kConfig.aligned, kColumns, kThreads>(tile, source, keep);
      }
    };
    // Wide heads have many rows per thread to ask about, and most tiles answer yes for all.
    // Narrower ones lose more by the second copy of the loop (H200, 2026-11-21: D256 + 1 to 2 %,
    // D128 - 6 %).
    const bool whole = first >= keys.begin && first + kConfig.block_kv <= keys.end;
    if (kColumns > 128 && whole) {
      load([&](int row) { return features.reads_key(first + row); });
      return;
    }
    load(seen);
  }
  ATTNJIT_DEVICE void load_k(int slot, const Job& job) {
    if (job.exists()) load_keys<kConfig.head_dim>(k_tile(slot), k, params.k_strides, job);
  }
  ATTNJIT_DEVICE void load_v(int slot, const Job& job) {
    if (job.exists()) load_keys<kConfig.head_dim_v>(v_tile(slot), v, params.v_strides, job);
  }
};

}  // namespace attnjit::kernel

// ---- attnjit/ptx/matrix.cuh

// Warp-wide matrix instructions (PTX ISA, "Matrix multiply-accumulate operation using mma").
namespace attnjit::kernel::ptx {

// Operand fragments of m16n8k16: A has 16 rows by 16 columns, BPair two B operands side by side
// (16 deep, 8 columns each).
struct FragmentA {
  uint32 word[4];
};
struct FragmentBPair {
  uint32 word[2][2];
};

// Four 8x8 matrices of 16-bit elements. Lane l supplies the address of row l % 8 of matrix l / 8.
ATTNJIT_DEVICE void load_matrices(uint32 (&word)[4], uint32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
               : "r"(address)
               : "memory");
}
ATTNJIT_DEVICE void load_matrices_transposed(uint32 (&word)[4], uint32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
               : "r"(address)
               : "memory");
}

ATTNJIT_DEVICE FragmentA load_fragment_a(uint32 address) {
  FragmentA a;
  load_matrices(a.word, address);
  return a;
}
ATTNJIT_DEVICE FragmentBPair as_fragment_b_pair(const uint32 (&word)[4]) {
  return {{{word[0], word[1]}, {word[2], word[3]}}};
}
ATTNJIT_DEVICE FragmentBPair load_fragment_b(uint32 address) {
  uint32 word[4];
  load_matrices(word, address);
  return as_fragment_b_pair(word);
}
ATTNJIT_DEVICE FragmentBPair load_fragment_b_transposed(uint32 address) {
  uint32 word[4];
  load_matrices_transposed(word, address);
  return as_fragment_b_pair(word);
}

// c += a b, fp32 accumulation.
template <DType kDType>
ATTNJIT_DEVICE void multiply_accumulate(float (&c)[4], const FragmentA& a, const uint32 (&b)[2]) {
  if constexpr (kDType == DType::kBFloat16) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "r"(b[0]), "r"(b[1]));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "r"(b[0]), "r"(b[1]));
  }
}

}  // namespace attnjit::kernel::ptx

// ---- attnjit/softmax.cuh

// ---- attnjit/tile/fragments.cuh

namespace attnjit::kernel {

// A number for each of a thread's rows of fragments: [row tile][h].
template <int kRowTiles>
using RowValues = float[kRowTiles][2];

// A thread's part of a tile that the matrix instructions compute or multiply by, in fp32: row tiles of
// 16 rows, groups of 8 columns. Of each, lane l holds rows l / 4 (h = 0) and l / 4 + 8 (h = 1) and
// columns 2 (l % 4) and the next one: elements 2 h and 2 h + 1.
template <int kRowTiles, int kGroups>
struct Fragments {
  float element[kRowTiles][kGroups][4];

  // Groups of a row tile.
  ATTNJIT_DEVICE auto& operator[](int m) { return element[m]; }
  ATTNJIT_DEVICE const auto& operator[](int m) const { return element[m]; }

  // visit(element, m, n, e) for each element, with compile-time indices once unrolled.
  template <class Visit>
  ATTNJIT_DEVICE void for_each(Visit visit) {
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int n = 0; n < kGroups; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) visit(element[m][n][e], m, n, e);
      }
    }
  }

  ATTNJIT_DEVICE void operator=(float value) {
    for_each([=](float& x, int, int, int) { x = value; });
  }
  ATTNJIT_DEVICE void operator*=(float factor) {
    for_each([=](float& x, int, int, int) { x *= factor; });
  }
  // The largest of a thread's elements in row h of row tile m.
  ATTNJIT_DEVICE float row_max(int m, int h) const {
    float highest = -ptx::infinity();
#pragma unroll
    for (int n = 0; n < kGroups; ++n) {
      highest = fmaxf(highest, fmaxf(element[m][n][2 * h], element[m][n][2 * h + 1]));
    }
    return highest;
  }
  // Multiplies row h of row tile m.
  ATTNJIT_DEVICE void scale_row(int m, int h, float factor) {
#pragma unroll
    for (int n = 0; n < kGroups; ++n) {
      element[m][n][2 * h] *= factor;
      element[m][n][2 * h + 1] *= factor;
    }
  }
  ATTNJIT_DEVICE void operator*=(const Fragments& other) {
    for_each([&](float& x, int m, int n, int e) { x *= other.element[m][n][e]; });
  }
  ATTNJIT_DEVICE void operator+=(const Fragments& other) {
    for_each([&](float& x, int m, int n, int e) { x += other.element[m][n][e]; });
  }
};

}  // namespace attnjit::kernel

namespace attnjit::kernel {

// The probabilities of one thread, rounded and packed as the operand of P V: [row tile][column
// group][row h], the two neighbouring columns of a group in one word.
template <int kRowTiles, int kGroups>
using Probabilities = uint32[kRowTiles][kGroups][2];

// Softmax over a row that arrives tile by tile: a running maximum, and a correction of what was
// summed under an older one (Milakov and Gimelshein, "Online normalizer calculation for softmax",
// 2018; FlashAttention). `exponent_scale` turns scores into exponents of 2.
template <DType kDType, int kRowTiles>
struct RunningMaxSoftmax {
  // The score that exponents are taken against, the same in all lanes of the quad: the running
  // maximum, -inf before the first kept key.
  RowValues<kRowTiles> reference;
  // Of this lane's probabilities before they are rounded, until finish(): lse is of these.
  RowValues<kRowTiles> sum;

  ATTNJIT_DEVICE void begin(float) { begin_at(-ptx::infinity()); }

  // Turns the scores of a tile into probabilities, 2^(exponent_scale (score - reference)). Where a
  // row's reference may have changed, correct(m, h, factor) tells what its output so far, which was
  // summed under the one before, is to be multiplied by. Differences of scores are exact where they
  // matter, so scores may be as large as fp32 allows.
  template <int kGroups, class Correct>
  ATTNJIT_DEVICE void step(const Fragments<kRowTiles, kGroups>& scores,
                           Probabilities<kRowTiles, kGroups>& probabilities, float exponent_scale,
                           Correct correct) {
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const float highest = ptx::quad_max(scores.row_max(m, h));
        const float before = reference[m][h];
        if (highest * exponent_scale > kDeadScore * kLog2E) {
          reference[m][h] = fmaxf(before, highest);
        }
        // A row without a kept key so far has no reference: -inf - -inf would be NaN.
        const float origin = reference[m][h] == -ptx::infinity() ? 0.0f : reference[m][h];
        const float correction = ptx::exp2_approx((before - origin) * exponent_scale);
        const float total = exponentiate(scores[m], probabilities[m], h, [&](float score) {
          return (score - origin) * exponent_scale;
        });
        sum[m][h] = fmaf(sum[m][h], correction, total);
        correct(m, h, correction);
      }
    }
  }

  // The state of a row after the last tile. `score_scale` turns scores into those of the row's lse.
  ATTNJIT_DEVICE RowState finish(int m, int h, float score_scale) const {
    const float total = ptx::quad_sum(sum[m][h]);
    return {reference[m][h] * score_scale, total, total};
  }

 protected:
  ATTNJIT_DEVICE void begin_at(float start) {
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        reference[m][h] = start;
        sum[m][h] = 0.0f;
      }
    }
  }
  // The probabilities of row h, 2^exponent_of(score); returns the sum of this lane's.
  template <int kGroups, class ExponentOf>
  ATTNJIT_DEVICE static float exponentiate(const float (&scores)[kGroups][4],
                                           uint32 (&probabilities)[kGroups][2], int h,
                                           ExponentOf exponent_of) {
    float total = 0.0f;
#pragma unroll
    for (int n = 0; n < kGroups; ++n) {
      const float low = ptx::exp2_approx(exponent_of(scores[n][2 * h]));
      const float high = ptx::exp2_approx(exponent_of(scores[n][2 * h + 1]));
      total += low;
      total += high;
      probabilities[n][h] = ptx::pack<kDType>(low, high);
    }
    return total;
  }
};

// The same without a maximum in most tiles. Softmax needs no maximum, only a reference that keeps
// its exponentials in range; the one of an earlier tile nearly always does. So a tile is
// exponentiated against the reference at hand, and its row sums tell whether that went well: a
// sum beyond the limit (an infinity or NaN where a row has no reference yet included) makes the
// warp take the exact step above, from the scores, which are still there. No maximum, no shuffle
// and no rescaling of `out` otherwise.
template <DType kDType, int kRowTiles>
struct MaxFreeSoftmax : RunningMaxSoftmax<kDType, kRowTiles> {
  using Exact = RunningMaxSoftmax<kDType, kRowTiles>;
  // Every probability is at most its lane's sum. bf16 has the exponents of fp32, and 2^60 leaves
  // room for the products and sums; fp16 ends at 65504.
  static constexpr float kLimit = kDType == DType::kBFloat16 ? 0x1p60f : 0x1p14f;
  // An origin is rounded by 2^-24 of it: up to here that is no more than probabilities are. Rows
  // with a larger one take exact steps.
  static constexpr float kMostOrigin = 0x1p13f;

  // The number that is taken off exponents in row h.
  ATTNJIT_DEVICE float origin(int m, int h, float exponent_scale) const {
    return this->reference[m][h] * exponent_scale;
  }
  // Whether `origin` suited probabilities whose sum in a lane is `total`. False for NaN.
  ATTNJIT_DEVICE static bool suited(float origin, float total) {
    return total <= kLimit && fabsf(origin) <= kMostOrigin;
  }

  template <int kGroups, class Correct>
  ATTNJIT_DEVICE void step(const Fragments<kRowTiles, kGroups>& scores,
                           Probabilities<kRowTiles, kGroups>& probabilities, float exponent_scale,
                           Correct correct) {
    RowValues<kRowTiles> total;
    bool in_range = true;
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const float origin = this->origin(m, h, exponent_scale);
        total[m][h] = Exact::exponentiate(scores[m], probabilities[m], h, [&](float score) {
          return fmaf(score, exponent_scale, -origin);
        });
        in_range &= suited(origin, total[m][h]);
      }
    }
    if (!ptx::warp_all(in_range)) {
      Exact::step(scores, probabilities, exponent_scale, correct);
      return;
    }
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) this->sum[m][h] += total[m][h];
    }
  }
};

// The same as MaxFreeSoftmax without a first tile that is exact: rows begin with a reference that
// suits most scores, and the first tile also has to show that it is not far too high for them.
template <DType kDType, int kRowTiles>
struct GivenStartSoftmax : MaxFreeSoftmax<kDType, kRowTiles> {
  using Exact = RunningMaxSoftmax<kDType, kRowTiles>;
  static constexpr bool kWide = kDType == DType::kBFloat16;
  // fp16 has nothing below 2^-24. A row whose first probabilities add up to 2^4 has one of 2^-4 at
  // least in a tile of 256 keys, so that what is 2^20 times smaller still counts. With a reference
  // of -6, in log2 units, rows of scores of unit variance begin between 2^4 and 2^14.
  static constexpr float kStart = kWide ? 0.0f : -6.0f;
  static constexpr float kLeast = kWide ? 0x1p-60f : 0x1p4f;  // of a row's first sum

  ATTNJIT_DEVICE void begin(float exponent_scale) {
    this->begin_at(kWide ? 0.0f : kStart * ptx::reciprocal_approx(exponent_scale));
  }

  // As RunningMaxSoftmax::step(); `begins`: nothing has been summed up before this tile. Returns
  // whether correct() was called. A function of the scores that are still there, so that `out` may
  // be in use.
  template <int kGroups, class Exponents, class Correct>
  ATTNJIT_DEVICE bool step(bool begins, Fragments<kRowTiles, kGroups>& scores,
                           Probabilities<kRowTiles, kGroups>& probabilities, Exponents exponents,
                           Correct correct) {
    RowValues<kRowTiles> total = {};
    bool in_range = true;
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
      const float origin[2] = {this->origin(m, 0, exponents.exponent_scale),
                               this->origin(m, 1, exponents.exponent_scale)};
      // Rows side by side, and pairs of keys first: sums that wait for each other less.
#pragma unroll
      for (int n = 0; n < kGroups; ++n) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const float low = ptx::exp2_approx(exponents.of(scores, m, n, 2 * h, origin[h]));
          const float high = ptx::exp2_approx(exponents.of(scores, m, n, 2 * h + 1, origin[h]));
          total[m][h] += low + high;
          probabilities[m][n][h] = ptx::pack<kDType>(low, high);
        }
      }
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        in_range &= this->suited(origin[h], total[m][h]);
        if (begins) in_range &= ptx::quad_sum(total[m][h]) >= kLeast;
      }
    }
    in_range &= exponents.fit();
    if (ptx::warp_all(in_range)) {
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
        for (int h = 0; h < 2; ++h) this->sum[m][h] += total[m][h];
      }
      return false;
    }
    if (begins) Exact::begin(exponents.exponent_scale);
    exponents.settle(scores);
    Exact::step(scores, probabilities, exponents.exponent_scale, correct);
    return true;
  }
};

template <SoftmaxPolicy kPolicy, DType kDType, int kRowTiles>
struct SoftmaxOf {
  using Type = RunningMaxSoftmax<kDType, kRowTiles>;
};
template <DType kDType, int kRowTiles>
struct SoftmaxOf<SoftmaxPolicy::kMaxFree, kDType, kRowTiles> {
  using Type = MaxFreeSoftmax<kDType, kRowTiles>;
};

}  // namespace attnjit::kernel

// ---- attnjit/tile/row_maxima.cuh

// The largest scores of a thread's rows, beside a softmax that keeps no maximum. Nothing where they
// are not kept.
namespace attnjit::kernel {

template <bool kKept, int kRowTiles>
struct RowMaxima {
  ATTNJIT_DEVICE void begin() {}
  template <int kGroups>
  ATTNJIT_DEVICE void see(const Fragments<kRowTiles, kGroups>&) {}
};

template <int kRowTiles>
struct RowMaxima<true, kRowTiles> {
  RowValues<kRowTiles> highest;  // of this lane's keys

  ATTNJIT_DEVICE void begin() {
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) highest[m][h] = -ptx::infinity();
    }
  }
  // Takes a tile's scores in, -inf where they are dropped.
  template <int kGroups>
  ATTNJIT_DEVICE void see(const Fragments<kRowTiles, kGroups>& scores) {
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) highest[m][h] = fmaxf(highest[m][h], scores.row_max(m, h));
    }
  }
  // That of all keys of a row. Warps call it whole.
  ATTNJIT_DEVICE float of(int m, int h) const { return ptx::quad_max(highest[m][h]); }
};

// The same of one row tile in shared memory, for a kernel without a register to spare: in them they
// made one of 128 columns spill 240 bytes (ptxas 13.0). Each thread has places of its own: kPitch
// bytes apart for its two rows, and again for every other turn, so that those of a turn are there
// until the end of the next.
template <bool kKept, int kPitch>
struct SharedRowMaxima {
  uint32 place;

  ATTNJIT_DEVICE void begin(uint32) const {}
  template <int kGroups>
  ATTNJIT_DEVICE void see(uint32, const Fragments<1, kGroups>&) const {}
};

template <int kPitch>
struct SharedRowMaxima<true, kPitch> {
  uint32 place;

  ATTNJIT_DEVICE void begin(uint32 turn) const {
#pragma unroll
    for (int h = 0; h < 2; ++h) ptx::store_shared_4(at(turn, h), ptx::as_bits(-ptx::infinity()));
  }
  template <int kGroups>
  ATTNJIT_DEVICE void see(uint32 turn, const Fragments<1, kGroups>& scores) const {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float highest = fmaxf(of_lane(turn, h), scores.row_max(0, h));
      ptx::store_shared_4(at(turn, h), ptx::as_bits(highest));
    }
  }
  ATTNJIT_DEVICE float of(uint32 turn, int h) const { return ptx::quad_max(of_lane(turn, h)); }

 private:
  ATTNJIT_DEVICE uint32 at(uint32 turn, int h) const {
    return place + ((turn & 1) * 2 + h) * kPitch;
  }
  ATTNJIT_DEVICE float of_lane(uint32 turn, int h) const {
    return ptx::as_float(ptx::load_shared_4(at(turn, h)));
  }
};

}  // namespace attnjit::kernel

// The portable forward: out = softmax(scale q k^T + features) v for every GPU from sm_80 on,
// with mma.sync, ldmatrix and cp.async.
//
//   q   [batch, Hq,  Lq, D ]      out [batch, Hq, Lq, Dv]
//   k   [batch, Hkv, Lk, D ]      lse [batch, Hq, Lq]
//   v   [batch, Hkv, Lk, Dv]
//
// One thread block computes block_q rows of one head (or of the query heads of one kv head, see
// pack_heads) and walks over its share of the keys in tiles:
//
//                 block_kv keys ->
//              +------+------+------+----          each warp owns 16 row_tiles() rows;
//    warp 0    |      |      |      |              its scores, probabilities and output
//    warp 1    |  S = Q K^T, tile by tile          stay in its registers
//    ...       |      |      |      |
//              +------+------+------+----
//
// Q is read again for each tile; K and V are streamed by cp.async (forward_mma_tiles.cuh).
namespace attnjit::kernel {

template <ForwardConfig kConfig, class Features, ScoreShape kShape = kConfig.scores()>
struct Forward : ForwardTiles<kConfig, Features, kShape> {
  static_assert(why_invalid(kConfig) == nullptr, "why_invalid(config) in forward_config.h");
  using Base = ForwardTiles<kConfig, Features, kShape>;
  using Base::Base;
  using Base::block, Base::features, Base::params;
  using Base::k_tile, Base::out_tile, Base::q_tile, Base::v_tile;
  using Base::kHeads, Base::kPacked, Base::kRowTiles, Base::kStages, Base::kThreads;
  using Base::load_k, Base::load_q, Base::load_v, Base::row_address;
  using Base::locate, Base::look_ahead, Base::next_job, Base::split;
  using typename Base::Job, typename Base::KTile, typename Base::VTile;
  static constexpr int kGroups = kConfig.block_kv / 8;                // of 8 keys
  static constexpr int kOutGroups = kConfig.padded_head_dim_v() / 8;  // of 8 columns
  static constexpr bool kRunningMax = kConfig.softmax == SoftmaxPolicy::kRunningMax;
  // The product with V has 8 columns of ones besides, which sum rounded probabilities up: `out` is
  // divided by these sums. Against a running maximum rounding leaves a row's largest probability
  // as it is, and the sums of the softmax serve as well.
  static constexpr int kSummedGroups = kOutGroups + (kRunningMax ? 0 : 1);

  typename SoftmaxOf<kConfig.softmax, kConfig.dtype, kRowTiles>::Type softmax;
  [[no_unique_address]] RowMaxima<Features::kKeepsMaxima && !kRunningMax, kRowTiles> maxima;
  Fragments<kRowTiles, kSummedGroups> out;

  ATTNJIT_DEVICE void run() {
    locate();
    if (kPacked && block.first_row >= block.num_rows) return;
    look_ahead();
    load_q();  // joins the first group of copies
    softmax.begin(params.exponent_scale);
    maxima.begin();
    out = 0.0f;
    if constexpr (kStages == 1) {
      walk_alternating();
    } else {
      walk_ring();
    }
    if (params.num_splits == 1) {
      write();
    } else {
      write_partial();
    }
  }

 private:
  // scores = Q K^T
  ATTNJIT_DEVICE void multiply_q_k(Fragments<kRowTiles, kGroups>& scores, const KTile& tile) {
    const int lane = ptx::lane_index();
    const int q_row = ptx::warp_index() * 16 * kRowTiles + (lane & 15);
    scores = 0.0f;
#pragma unroll
    for (int depth = 0; depth < kConfig.padded_head_dim() / 16; ++depth) {
      ptx::FragmentA a[kRowTiles];
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
        a[m] = ptx::load_fragment_a(q_tile().address(q_row + 16 * m, 2 * depth ^ (lane >> 4)));
      }
#pragma unroll
      for (int n = 0; n < kGroups; n += 2) {
        const int row = KeyOrder::row(n, lane & 7) + 2 * (lane >> 4);
        const ptx::FragmentBPair b =
            ptx::load_fragment_b(tile.address(row, 2 * depth ^ (lane >> 3 & 1)));
#pragma unroll
        for (int m = 0; m < kRowTiles; ++m) {
          ptx::multiply_accumulate<kConfig.dtype>(scores[m][n], a[m], b.word[0]);
          ptx::multiply_accumulate<kConfig.dtype>(scores[m][n + 1], a[m], b.word[1]);
        }
      }
    }
  }

  // out += P [V | 1]. Probabilities are laid out as an operand already: two column groups of S are
  // the 16 columns of one A fragment.
  ATTNJIT_DEVICE void multiply_p_v(const Probabilities<kRowTiles, kGroups>& p, const VTile& tile) {
    const int lane = ptx::lane_index();
#pragma unroll
    for (int n = 0; n < kGroups; n += 2) {
      ptx::FragmentA a[kRowTiles];
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
        a[m] = {p[m][n][0], p[m][n][1], p[m][n + 1][0], p[m][n + 1][1]};
      }
      if constexpr (!kRunningMax) {
        constexpr uint32 kOnes[2] = {pair_of_ones(kConfig.dtype), pair_of_ones(kConfig.dtype)};
#pragma unroll
        for (int m = 0; m < kRowTiles; ++m) {
          ptx::multiply_accumulate<kConfig.dtype>(out[m][kOutGroups], a[m], kOnes);
        }
      }
      const int row = KeyOrder::row(n, lane & 7) + 2 * (lane >> 3 & 1);
#pragma unroll
      for (int column = 0; column < kOutGroups; column += 2) {
        const ptx::FragmentBPair b =
            ptx::load_fragment_b_transposed(tile.address(row, column ^ (lane >> 4)));
#pragma unroll
        for (int m = 0; m < kRowTiles; ++m) {
          ptx::multiply_accumulate<kConfig.dtype>(out[m][column], a[m], b.word[0]);
          ptx::multiply_accumulate<kConfig.dtype>(out[m][column + 1], a[m], b.word[1]);
        }
      }
    }
  }

  // Works on the tile in `slot`; before_v() runs between the two products.
  template <class BeforeV>
  ATTNJIT_DEVICE void attend(const Job& job, int slot, BeforeV before_v) {
    const int first_key = job.tile * kConfig.block_kv;
    Fragments<kRowTiles, kGroups> scores;
    features.fetch(block, first_key, job.use);
    multiply_q_k(scores, k_tile(slot));
    before_v();
    if constexpr (Features::kTransforms) features.transform(scores);
    features.add(block, scores, kConfig.scale_first ? params.score_scale : 1.0f, first_key);
    if (job.use == TileUse::kMasked) features.mask(block, scores, first_key);
    maxima.see(scores);
    Probabilities<kRowTiles, kGroups> probabilities;
    softmax.step(scores, probabilities, params.exponent_scale,
                 [&](int m, int h, float correction) { out.scale_row(m, h, correction); });
    multiply_p_v(probabilities, v_tile(slot));
  }

  // One buffer each for K and V: V streams in while S is computed, the next K under P V.
  ATTNJIT_DEVICE void walk_alternating() {
    Job job = next_job();
    load_k(0, job);
    ptx::copy_async_commit();
    look_ahead();
    while (job.exists()) {
      ptx::copy_async_wait<0>();
      ptx::block_sync();  // K is there for all; all are done with the previous V
      load_v(0, job);
      ptx::copy_async_commit();
      const Job next = next_job();
      attend(job, 0, [&] {
        ptx::copy_async_wait<0>();
        ptx::block_sync();  // V is there for all; all are done with this K
        load_k(0, next);
        ptx::copy_async_commit();
        look_ahead();
      });
      job = next;
    }
  }

  // A ring of kStages tiles of K and V, kStages - 1 of them ahead; one group of copies a tile.
  ATTNJIT_DEVICE void walk_ring() {
    Job jobs[kStages];  // jobs[0] is worked on, the others are on their way
#pragma unroll
    for (int s = 0; s < kStages - 1; ++s) {
      jobs[s] = next_job();
      load_k(s, jobs[s]);
      load_v(s, jobs[s]);
      ptx::copy_async_commit();
      look_ahead();
    }
    for (int slot = 0; jobs[0].exists(); slot = slot + 1 == kStages ? 0 : slot + 1) {
      ptx::copy_async_wait<kStages - 2>();
      ptx::block_sync();  // this tile is there for all; all are done with the one before
      const int freed = slot == 0 ? kStages - 1 : slot - 1;
      jobs[kStages - 1] = next_job();
      load_k(freed, jobs[kStages - 1]);
      load_v(freed, jobs[kStages - 1]);
      ptx::copy_async_commit();
      look_ahead();
      attend(jobs[0], slot, [] {});
#pragma unroll
      for (int s = 0; s + 1 < kStages; ++s) jobs[s] = jobs[s + 1];
    }
  }

  // The place of a row in arrays of a number per row and split.
  ATTNJIT_DEVICE int64 split_slot(const RowOwner& owner) const {
    return lse_index<kPacked>(params, block, owner) * params.num_splits + split();
  }

  // Closes a row, and writes its largest score where that is wanted.
  ATTNJIT_DEVICE ClosedRow close_row(int m, int h) {
    const float scale = kConfig.scale_first ? 1.0f : params.score_scale;
    RowState state = softmax.finish(m, h, scale);
    if constexpr (!kRunningMax) state.divisor = out[m][kOutGroups][2 * h];
    const ClosedRow row = kernel::close_row<kHeads>(features, block, state, 16 * m + 8 * h);
    if constexpr (Features::kKeepsMaxima) {
      if constexpr (!kRunningMax) {
        state.max = maxima.of(m, h) * scale;
      }
      features.write_max(features, block, row.owner, state, split_slot(row.owner));
    }
    return row;
  }

  // Writes out and lse. The rows are staged in shared memory for 16-byte stores.
  ATTNJIT_DEVICE void write() {
    ptx::copy_async_wait<0>();
    ptx::block_sync();  // all are done with Q, whose place O takes
    const int lane = ptx::lane_index();
    const int warp_row = ptx::warp_index() * 16 * kRowTiles + lane / 4;
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        ClosedRow row = close_row(m, h);
        features.close(block, row);
        if (params.lse != nullptr && (lane & 3) == 0 && row.owner.query < block.seqlen_q) {
          ptx::store_global(params.lse + lse_index<kPacked>(params, block, row.owner), row.lse);
        }
#pragma unroll
        for (int n = 0; n < kOutGroups; ++n) {
          ptx::store_shared_4(out_tile().address(warp_row + 16 * m + 8 * h, n) + 4 * (lane & 3),
                              ptx::pack<kConfig.dtype>(row.scaled(out[m][n][2 * h]),
                                                       row.scaled(out[m][n][2 * h + 1])));
        }
      }
    }
    ptx::block_sync();  // O is complete
    store_tile<kConfig.aligned, kConfig.head_dim_v, kThreads>(
        out_tile(), row_address(static_cast<uint16*>(params.out), params.out_strides),
        block.num_rows - block.first_row);
  }

  // Writes what this split knows of its rows, in fp32.
  ATTNJIT_DEVICE void write_partial() {
    ptx::let_next_kernel_begin();
    const int lane = ptx::lane_index();
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        ClosedRow row = close_row(m, h);
        if (row.owner.query >= block.seqlen_q) continue;
        if (split() == 0) features.close(block, row);
        const int64 slot = split_slot(row.owner);
        if ((lane & 3) == 0) ptx::store_global(params.partial_lse + slot, row.lse);
        float* target = params.partial_out + slot * kConfig.padded_head_dim_v() + 2 * (lane & 3);
#pragma unroll
        for (int n = 0; n < kOutGroups; ++n) {
          ptx::store_global(reinterpret_cast<ptx::Vector8*>(target + 8 * n),
                            ptx::Vector8{ptx::as_bits(row.scaled(out[m][n][2 * h])),
                                         ptx::as_bits(row.scaled(out[m][n][2 * h + 1]))});
        }
      }
    }
  }
};

template <ForwardConfig kConfig, class... Features>
ATTNJIT_DEVICE void forward(const ForwardParams& params, Features... features) {
  Forward<kConfig, FeatureSet<Features...>>(params, FeatureSet<Features...>(features...)).run();
}

}  // namespace attnjit::kernel

// ---- attnjit/score/seqlens.cuh

// ---- attnjit/score/seqlens_params.h

namespace attnjit::kernel {

// Rows and keys in use per batch element, or null.
struct SeqlensParams {
  const int32* q;   // [batch]
  const int32* kv;  // [batch]
};

}  // namespace attnjit::kernel

namespace attnjit::kernel {

// Lengths per batch element, clamped to the tensors'. Rows past the end are dead.
struct Seqlens : Feature {
  static constexpr bool kNarrows = true;

  const SeqlensParams& params;

  ATTNJIT_DEVICE explicit Seqlens(const SeqlensParams& p) : params(p) {}

  ATTNJIT_DEVICE static int clamped(const int32* lengths, int batch, int limit) {
    if (lengths == nullptr) return limit;
    const int length = ptx::load_global(lengths + batch);
    return length < 0 ? 0 : length < limit ? length : limit;
  }
  ATTNJIT_DEVICE void set_lengths(Block& block) {
    block.query_len = clamped(params.q, block.batch, block.seqlen_q);
    block.kv_len = clamped(params.kv, block.batch, block.seqlen_kv);
  }
  ATTNJIT_DEVICE void finish(const Block& block, const RowOwner& owner, RowState& row) {
    if (owner.query >= block.query_len) row.sum = 0.0f;
  }
};

}  // namespace attnjit::kernel

// ---- attnjit/score/bias.cuh

// ---- attnjit/ptx/prefetch.cuh

namespace attnjit::kernel::ptx {

// Asks for the line of global memory at `address` to be brought to the L2 cache.
ATTNJIT_DEVICE void prefetch_l2(const void* address) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
}

}  // namespace attnjit::kernel::ptx

// ---- attnjit/ptx/prefetch_tensor.cuh

namespace attnjit::kernel::ptx {

// Asks for a box of a tensor to be brought to the L2 cache; see tensor_load().
ATTNJIT_DEVICE void prefetch_tensor(const TensorMap& map, int c0, int c1, int c2, int c3) {
  asm volatile(
      "cp.async.bulk.prefetch.tensor.4d.L2.global.tile [%0, {%1, %2, %3, %4}];" ::"l"(&map),
      "r"(c0), "r"(c1), "r"(c2), "r"(c3)
      : "memory");
}

}  // namespace attnjit::kernel::ptx

// ---- attnjit/ptx/tensor_copy.cuh

// Copies of boxes between global and shared memory by the copy engine (PTX ISA,
// "cp.async.bulk.tensor"). A box begins at the coordinates given, innermost axis first; what of it
// lies outside of the tensor is read as zeros and never written. `map` is a kernel parameter.
namespace attnjit::kernel::ptx {

// Starts a load. Its bytes count towards the phase of `barrier` that has announced them.
ATTNJIT_DEVICE void tensor_load(uint32 shared, const TensorMap& map, uint32 barrier, int c0, int c1,
                                int c2, int c3) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(shared),
      "l"(&map), "r"(barrier), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
      : "memory");
}
ATTNJIT_DEVICE void tensor_load(uint32 shared, const TensorMap& map, uint32 barrier, int c0, int c1,
                                int c2, int c3, int c4) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4, %5, %6, %7}], [%2];" ::"r"(shared),
      "l"(&map), "r"(barrier), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)
      : "memory");
}

// Starts a store if `condition` holds, as part of the thread's open group of stores. A predicate
// for the reason that barrier_arrive_if() has.
ATTNJIT_DEVICE void tensor_store_if(bool condition, const TensorMap& map, uint32 shared, int c0,
                                    int c1, int c2, int c3) {
  asm volatile(
      "{\n.reg .pred stores;\n"
      "setp.ne.u32 stores, %6, 0;\n"
      "@stores cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], "
      "[%1];\n"
      "}" ::"l"(&map),
      "r"(shared), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(static_cast<uint32>(condition))
      : "memory");
}
// Closes the thread's group of stores.
ATTNJIT_DEVICE void tensor_store_commit() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
// Waits until the stores of the thread have read shared memory, but for those of the last kPending
// groups. They are complete when the kernel ends.
template <int kPending = 0>
ATTNJIT_DEVICE void tensor_store_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}

// Waits until the stores and additions of the thread are complete, but for those of the last
// kPending groups.
template <int kPending = 0>
ATTNJIT_DEVICE void tensor_store_wait() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(kPending) : "memory");
}

// Orders what this thread sees or has done in global memory with what the copy engine does there.
ATTNJIT_DEVICE void fence_async_proxy_global() {
  asm volatile("fence.proxy.async.global;" ::: "memory");
}

// Shows what this thread has written to shared memory to the copy engine and to wgmma ("async
// proxy").
ATTNJIT_DEVICE void fence_async_proxy() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

}  // namespace attnjit::kernel::ptx

// ---- attnjit/score/operand.cuh

// Ways of a tensor over (query, key) to the registers of the threads that hold its scores.
namespace attnjit::kernel {

// The thread's elements: of each of its rows, or of the one that all share, neighbouring keys of
// every span (tile/key_order.h), straight from global memory. kVectorized: they are aligned and lie
// together; kOwnRows: each row has its own.
template <ScoreShape kShape, int kElementBytes, bool kVectorized, bool kOwnRows>
struct OperandRegisters {
  static_assert(kShape.queries_in_rows(), "neighbouring keys lie in a row");
  static constexpr int kLines = kOwnRows ? kShape.lines() : 1;
  static constexpr int kSpan = kShape.span(), kKeys = kShape.neighbours();
  static constexpr int kSpans = kShape.keys() / kSpan;
  static constexpr int kWords = kKeys * kElementBytes / 4;  // 32-bit words of a span's elements

  // The beginning of the thread's keys of one of its rows.
  struct Row {
    const uint8* keys;
  };

  uint32 word[kLines][kSpans][kWords];

  // Reads the keys from `first_key` on of a source whose row_address(block, row) is where a row's
  // elements begin and whose params have the stride of the keys.
  template <class Source>
  ATTNJIT_DEVICE void read(const Source& source, const Block& block, int first_key) {
#pragma unroll
    for (int line = 0; line < kLines; ++line) {
      const uint8* row = source.row_address(block, block.thread_row + ScoreShape(kShape).row(line));
      const int key = first_key + block.thread_key, keys = block.operand_keys;
#pragma unroll
      for (int s = 0; s < kSpans; ++s) {
        if constexpr (kVectorized) {
          read_vector_if(key + kSpan * s + kKeys <= keys, word[line][s],
                         row + static_cast<int64>(key + kSpan * s) * kElementBytes);
        } else {
          read_elements(word[line][s], row, key + kSpan * s, source.params, keys);
        }
      }
      if constexpr (kVectorized) read_cut_span(word[line], row, key, source.params, keys);
    }
  }
  // The same where all keys of the tile lie inside of the tensor.
  ATTNJIT_DEVICE void read_whole(const Row (&rows)[kLines], int first_key) {
    static_assert(kVectorized);
#pragma unroll
    for (int line = 0; line < kLines; ++line) {
      const uint8* row = rows[line].keys + static_cast<int64>(first_key) * kElementBytes;
#pragma unroll
      for (int s = 0; s < kSpans; ++s) read_vector(word[line][s], row + kSpan * s * kElementBytes);
    }
  }
  // The bits of an element of fewer than 32, and of one of 32.
  ATTNJIT_DEVICE uint32 bits(int line, int key) const {
    constexpr int kPerWord = 4 / kElementBytes;
    const int i = key % kSpan;
    return word[kOwnRows ? line : 0][key / kSpan][i / kPerWord] >>
           (8 * kElementBytes * (i % kPerWord));
  }

 private:
  // The end of the tensor cuts one span at most, whose elements are read one by one.
  template <class Params>
  ATTNJIT_DEVICE static void read_cut_span(uint32 (&spans)[kSpans][kWords], const uint8* row,
                                           int key, const Params& params, int seqlen_kv) {
    const int cut = (seqlen_kv - key) / kSpan, inside = (seqlen_kv - key) % kSpan;
    if (inside <= 0 || inside >= kKeys) return;
    uint32 span[kWords];
    read_elements(span, row, key + kSpan * cut, params, seqlen_kv);
#pragma unroll
    for (int s = 0; s < kSpans; ++s) {
#pragma unroll
      for (int i = 0; i < kWords; ++i) spans[s][i] = s == cut ? span[i] : spans[s][i];
    }
  }
  // The keys of a span from `key` on of one row; those past the tensor are not read.
  template <class Params>
  ATTNJIT_DEVICE static void read_elements(uint32 (&span)[kWords], const uint8* row, int key,
                                           const Params& params, int seqlen_kv) {
    const int64 step = params.key_stride * kElementBytes;
    const uint8* address = row + key * step;
#pragma unroll
    for (int i = 0; i < kWords; ++i) span[i] = 0;
#pragma unroll
    for (int i = 0; i < kKeys; ++i, address += step) {
      if (key + i >= seqlen_kv) continue;
      constexpr int kPerWord = 4 / kElementBytes;
      span[i / kPerWord] |= read_element(address) << (8 * kElementBytes * (i % kPerWord));
    }
  }
  // Zeros if not `inside`, and then nothing is read.
  ATTNJIT_DEVICE static void read_vector_if(bool inside, uint32 (&span)[kWords],
                                            const uint8* address) {
#pragma unroll
    for (int i = 0; i < kWords; ++i) span[i] = 0;
    if (inside) read_vector(span, address);
  }
  ATTNJIT_DEVICE static void read_vector(uint32 (&span)[kWords], const uint8* address) {
    if constexpr (kWords == 2) {
      const uint64 pair = ptx::load_global(reinterpret_cast<const uint64*>(address));
      span[0] = static_cast<uint32>(pair);
      span[1] = static_cast<uint32>(pair >> 32);
      return;
    }
    const auto* source = reinterpret_cast<const ptx::Vector16*>(address);
#pragma unroll
    for (int i = 0; i < kWords / 4; ++i) {
      // Steps of such kernels begin with the read, and barriers and products follow.
      const ptx::Vector16 v =
          kShape.strided_keys ? ptx::load_global_now(source + i) : ptx::load_global(source + i);
#pragma unroll
      for (int j = 0; j < 4; ++j) span[4 * i + j] = v.word[j];
    }
  }
  ATTNJIT_DEVICE static uint32 read_element(const uint8* address) {
    if constexpr (kElementBytes == 4) {
      return ptx::load_global(reinterpret_cast<const uint32*>(address));
    } else {
      return ptx::load_global(reinterpret_cast<const uint16*>(address));
    }
  }
};

// Elements that are a byte each, of the row that all queries share, from a source whose
// row_address(block, row) is where the row begins.
template <ScoreShape kShape, bool kVectorized>
struct ByteRegisters {
  static_assert(kShape.queries_in_rows());
  static constexpr int kSpans = kShape.keys() / 32;

  uint64 bytes[kSpans];

  template <class Source>
  ATTNJIT_DEVICE void read(const Source& source, const Block& block, int first_key) {
    const uint8* row = source.row_address(block, 0);
#pragma unroll
    for (int s = 0; s < kSpans; ++s) {
      bytes[s] =
          eight_keys(row, first_key + 32 * s + block.thread_key, source.params, block.operand_keys);
    }
  }
  ATTNJIT_DEVICE bool is_zero(int, int key) const {
    return (bytes[key >> 5] >> (8 * (key & 31)) & 0xff) == 0;
  }

 private:
  // The eight keys from `key` on of one row; those past the tensor are 0.
  template <class Params>
  ATTNJIT_DEVICE static uint64 eight_keys(const uint8* row, int key, const Params& params,
                                          int seqlen_kv) {
    if (kVectorized && key + 8 <= seqlen_kv) {
      return ptx::load_global(reinterpret_cast<const uint64*>(row + key));
    }
    uint64 result = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (key + i >= seqlen_kv) continue;
      result |= static_cast<uint64>(ptx::load_global(row + (key + i) * params.key_stride))
                << (8 * i);
    }
    return result;
  }
};

}  // namespace attnjit::kernel

// ---- attnjit/score/operand_params.h

namespace attnjit::kernel {

// A bias or a per-query mask, read in place. Broadcast axes have stride 0.
struct OperandParams {
  const void* data;
  int64 batch_stride, head_stride, query_stride, key_stride;  // elements
  int32 heads_per_plane;    // query heads that share one plane of the operand
  int32 batches_per_plane;  // batch elements that do, see batch_groups.cuh
};

}  // namespace attnjit::kernel

// ---- attnjit/score/positions.cuh

// Loops over a thread's scores by position: a line, which is one of its rows, and a key.
namespace attnjit::kernel {

// visit(score, line, key) for each score.
template <ScoreShape kShape, int kRowTiles, int kGroups, class Visit>
ATTNJIT_DEVICE void for_each_score(Fragments<kRowTiles, kGroups>& scores, Visit visit) {
  static_assert(kRowTiles == kShape.row_tiles && kGroups == kShape.groups);
  scores.for_each([&](float& score, int m, int n, int e) {
    visit(score, ScoreShape(kShape).line(m, n, e), ScoreShape(kShape).key(m, n, e));
  });
}

// visit(row, for_each_key) for each of the thread's rows, where for_each_key(visit) calls visit(score,
// key) for each of its scores.
template <ScoreShape kShape, int kRowTiles, int kGroups, class Visit>
ATTNJIT_DEVICE void for_each_row(const Block& block, Fragments<kRowTiles, kGroups>& scores,
                                 Visit visit) {
  static_assert(kRowTiles == kShape.row_tiles && kGroups == kShape.groups);
  if constexpr (kShape.queries_in_rows()) {
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        visit(block.thread_row + 16 * m + 8 * h, [&scores, m, h](auto visit_key) {
#pragma unroll
          for (int n = 0; n < kGroups; ++n) {
#pragma unroll
            for (int e = 2 * h; e < 2 * h + 2; ++e) {
              visit_key(scores[m][n][e], ScoreShape(kShape).key(m, n, e));
            }
          }
        });
      }
    }
  } else {
#pragma unroll
    for (int n = 0; n < kGroups; ++n) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        visit(block.thread_row + 8 * n + c, [&scores, n, c](auto visit_key) {
#pragma unroll
          for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
            for (int e = c; e < 4; e += 2) {
              visit_key(scores[m][n][e], ScoreShape(kShape).key(m, n, e));
            }
          }
        });
      }
    }
  }
}

}  // namespace attnjit::kernel

// ---- attnjit/score/transposed_operand.cuh

// Ways of a tensor over (query, key) to the registers of threads whose scores have keys in rows.
namespace attnjit::kernel {

template <int kElementBytes>
ATTNJIT_DEVICE uint32 load_element(const uint8* address) {
  if constexpr (kElementBytes == 4) {
    return ptx::load_global(reinterpret_cast<const uint32*>(address));
  } else if constexpr (kElementBytes == 2) {
    return ptx::load_global(reinterpret_cast<const uint16*>(address));
  } else {
    return ptx::load_global(address);
  }
}

// The elements of the thread's keys, where all queries share them: one by one from global memory.
template <ScoreShape kShape, int kElementBytes>
struct KeyRegisters {
  static_assert(!kShape.queries_in_rows());
  static constexpr int kLines = 1;
  static constexpr int kKeys = 2 * kShape.row_tiles;  // 8 apart

  struct Row {};

  uint32 word[kKeys];

  // Reads from a source as OperandRegisters::read() does, or one of bytes; keys past the tensor are
  // 0.
  template <class Source>
  ATTNJIT_DEVICE void read(const Source& source, const Block& block, int first_key) {
    const uint8* keys = source.row_address(block, 0);
#pragma unroll
    for (int i = 0; i < kKeys; ++i) {
      const int key = first_key + block.thread_key + 8 * i;
      const uint8* address = keys + key * source.params.key_stride * kElementBytes;
      word[i] = key < block.operand_keys ? load_element<kElementBytes>(address) : 0;
    }
  }
  ATTNJIT_DEVICE uint32 bits(int, int key) const { return word[key / 8]; }
  ATTNJIT_DEVICE bool is_zero(int line, int key) const { return bits(line, key) == 0; }
};

// The elements of each of the thread's keys and queries: one by one from global memory, whatever
// their type and strides.
template <ScoreShape kShape, int kElementBytes>
struct TransposedRegisters {
  static_assert(!kShape.queries_in_rows() && kShape.row_tiles == 1);
  static constexpr int kLines = 1;

  struct Row {};

  uint32 word[kShape.lines()][2];  // of keys 8 apart

  // Reads from a source as OperandRegisters::read() does. Those past the tensor repeat its last
  // ones, which nobody keeps.
  template <class Source>
  ATTNJIT_DEVICE void read(const Source& source, const Block& block, int first_key) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int key = lower(first_key + block.thread_key + 8 * h, block.operand_keys - 1);
      const uint8* const column =
          source.row_address(block, 0) + key * source.params.key_stride * kElementBytes;
#pragma unroll
      for (int line = 0; line < kShape.lines(); ++line) {
        const int row =
            lower(block.thread_row + ScoreShape(kShape).row(line), block.operand_queries - 1);
        word[line][h] =
            load_element<kElementBytes>(column + row * source.params.query_stride * kElementBytes);
      }
    }
  }
  ATTNJIT_DEVICE uint32 bits(int line, int key) const { return word[line][key / 8]; }

 private:
  ATTNJIT_DEVICE static int lower(int a, int b) { return a < b ? a : b; }
};

// The elements of 16 bits of each of the thread's keys and queries, from a tile that the copy
// engine has brought as [slab of 64 keys][query][64 keys], swizzled by 128 bytes. ldmatrix
// transposes them into the order of the scores.
template <ScoreShape kShape>
struct TransposedTileRegisters {
  static_assert(!kShape.queries_in_rows() && kShape.row_tiles == 1);
  static constexpr int kLines = 1;

  struct Row {};

  uint32 word[kShape.groups][2];  // of 8 queries and, 8 apart, of a key: two queries each

  ATTNJIT_DEVICE void read(uint32 tile, const Block& block) {
    const int lane = ptx::lane_index();
    const int key = block.thread_key - lane / 4;  // the warp's first
    const int chunk = key % 64 / 8 + (lane >> 3 & 1);
    const uint32 line = tile + key / 64 * kShape.block_q * 128 +
                        ((lane & 7) + 8 * (lane >> 4)) * 128 + ((chunk ^ (lane & 7)) << 4);
#pragma unroll
    for (int n = 0; n < kShape.groups; n += 2) {
      ptx::load_matrices_transposed(reinterpret_cast<uint32(&)[4]>(word[n]), line + n * 8 * 128);
    }
  }
  ATTNJIT_DEVICE uint32 bits(int line, int key) const {
    return word[line / 2][key / 8] >> (16 * (line & 1));
  }
};

}  // namespace attnjit::kernel

namespace attnjit::kernel {

// Adds a bias that varies over keys. 16-byte loads start before the scores are computed and arrive
// meanwhile, unless kLate: then, and where elements are read one by one, there are too many
// registers to keep through the product. Where scores have keys in rows, the copy engine brings a
// bias that has rows of its own, if they are aligned and of 16 bits; others begin to be read before
// the product too.
template <ScoreShape kShape, DType kDType, Extent kExtent, bool kVectorized, bool kLate = false>
struct Bias : Feature {
  static constexpr int kElementBytes = element_bytes(kDType);
  static constexpr bool kPacked = kShape.packed_heads > 1;
  static constexpr bool kOwnRows = kExtent == Extent::kPerPair || kPacked;
  static constexpr bool kTransposed = !kShape.queries_in_rows();
  static constexpr bool kByTile = kTransposed && kOwnRows && kVectorized && kElementBytes == 2;
  static constexpr bool kEarly = kTransposed ? !kByTile : kVectorized && !kLate;
  // Tiles that the end of the tensor does not cut are read without a look at their keys.
  static constexpr bool kWhole = kEarly && !kTransposed && kShape.strided_keys > 0;
  static constexpr bool kPerHead = true, kAdds = true;
  using ElementRegisters = TypeIf<kOwnRows, TransposedRegisters<kShape, kElementBytes>,
                                  KeyRegisters<kShape, kElementBytes>>;
  using Registers = TypeIf<kByTile, TransposedTileRegisters<kShape>,
                           TypeIf<kTransposed, ElementRegisters,
                                  OperandRegisters<kShape, kElementBytes, kVectorized, kOwnRows>>>;

  const OperandParams& params;
  const uint8* plane;  // of the block's head, or of its batch element where heads are packed
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
    if constexpr (!kPacked) plane = head_of(plane, block.head);
    // Reads of whole tiles add an offset to them.
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
    // Rows past the tensor repeat its last one; their results are never stored.
    const int num_rows = block.operand_queries * kShape.packed_heads;
    const RowOwner owner =
        owner_of<kShape.packed_heads>(block, row < num_rows ? row : num_rows - 1);
    const uint8* head = kPacked ? head_of(plane, owner.head) : plane;
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
    if constexpr (kVectorized && kExtent == Extent::kPerPair && !kPacked) {
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
  // Asks for a tile of the head at hand, as far as L2, where it will be read late.
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

// ---- attnjit/score/packed_mask.cuh

// ---- attnjit/score/mask_bits.cuh

// ---- attnjit/score/packed_mask_params.h

namespace attnjit::kernel {

// Bits by rows. A row's keys come in groups of kPackedKeys, kPackedWords words each, so that a row
// begins at a multiple of 16 bytes. Word t of a group has keys 8 t to 8 t + 7 of each 32, which are
// those of a thread in KeyOrder: bit 8 s + i is key 32 s + 8 t + i of the group.
inline constexpr int kPackedWords = 4, kPackedKeys = 32 * kPackedWords;

// The byte of a row that has a key, as bit key % 8.
ATTNJIT_INLINE_CONSTEXPR int packed_byte(int key) {
  return key / kPackedKeys * 4 * kPackedWords + key % 32 / 8 * 4 + key % kPackedKeys / 32;
}

// Bits by keys. A column has the queries of a tile of kMaskTile for one key, 64 bits. Quarter t of
// it has queries 2 t and 2 t + 1 of each 8, which are those of a lane with keys in the rows of its
// scores: bit 16 t + 2 j + i is query 8 j + 2 t + i of the tile.

// A boolean mask packed to bits, with a class for each tile of kMaskTile by kMaskTile; written by
// mask_pack.cuh.
struct PackedMaskParams {
  const uint32* words;   // [plane][row][words_per_row]
  const uint8* classes;  // [plane][q tile][kv tile], a TileUse each
  int64 words_per_plane;
  int64 classes_per_plane;
  int32 planes_per_batch;  // 0 if the mask is broadcast over the batch
  int32 heads_per_plane;
  int32 batches_per_plane;  // batch elements that share a plane, see batch_groups.cuh
  int32 words_per_row;      // a multiple of kPackedWords
  int32 num_q_tiles;        // 1 if all queries share the mask
  int32 num_kv_tiles;

  // The keys of a row's words.
  ATTNJIT_CONSTEXPR int padded_keys() const { return 32 * words_per_row; }
};

// One for a backward: where it varies over queries, with the bits by keys too. Those of the two
// that no kernel of the call reads may be null.
struct BackwardMaskParams {
  PackedMaskParams packed;
  const uint64* columns;  // [plane][q tile][padded key]
};

}  // namespace attnjit::kernel

// Ways of the bits of a packed mask to the registers of the threads that hold its scores. They are
// read from a source that has the beginning of the plane at hand and params of the mask. read()
// only begins to: what it has read is not looked at before settle(), so that nobody waits for
// memory where products could already be under way.
namespace attnjit::kernel {

// Of a plane whose bits lie by rows, for scores with queries in rows.
template <ScoreShape kShape, Extent kExtent>
struct RowBits {
  static_assert(kShape.queries_in_rows());
  static constexpr bool kPerPair = kExtent == Extent::kPerPair;
  static constexpr int kRows = kPerPair ? kShape.lines() : 1;
  static constexpr int kSpans = kShape.keys() / 32;
  static constexpr int kWords = ceil_div(kSpans, kPackedWords);  // of a row's bits
  // Words of a group of kPackedKeys that have keys of the thread.
  static constexpr int kParts = 8 / kShape.neighbours();
  // Groups that the thread's keys of a row may touch: they begin at a multiple of kStep spans.
  static constexpr int kStep = kSpans % 4 == 0 ? 4 : kSpans % 2 == 0 ? 2 : 1;
  static constexpr int kGroups = ceil_div(kPackedWords - kStep + kSpans, kPackedWords);
  // Whether the groups of a tile of keys always lie inside of their row.
  static constexpr bool kInside = kPackedKeys % kShape.block_kv == 0;

  // Once settled: those of span s follow those of span s - 1, as KeptKeys has them.
  uint32 word[kRows][kGroups * kParts];

  template <class Source>
  ATTNJIT_DEVICE void read(const Source& source, const Block& block, int first_key) {
    const int key = first_key + block.thread_key, first_group = key / kPackedKeys;
    const int num_groups = source.params.words_per_row / kPackedWords - first_group;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int row = block.thread_row + ScoreShape(kShape).row(r);
      // Rows past the tensor repeat its last one; their results are never stored.
      const int num_rows = block.operand_queries * kShape.packed_heads;
      const int last = row < num_rows ? row : num_rows - 1;
      const int64 query = kPerPair ? last / kShape.packed_heads : 0;
      const uint32* const words = source.words + query * source.params.words_per_row +
                                  first_group * kPackedWords + key % 32 / 8;
#pragma unroll
      for (int g = 0; g < kGroups; ++g) {
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
          word[r][g * kParts + part] =
              kInside || g < num_groups
                  ? ptx::load_global_written(words + g * kPackedWords + 2 * part)
                  : 0;
        }
      }
    }
  }
  ATTNJIT_DEVICE void settle(const Block& block, int first_key) {
    if constexpr (kParts == 2) {
      const int nibble = block.thread_key & 4;
      constexpr uint32 kLow = 0x0f0f0f0fu;
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
#pragma unroll
        for (int g = 0; g < kGroups; ++g) {
          word[r][g] = (word[r][2 * g] >> nibble & kLow) | (word[r][2 * g + 1] >> nibble & kLow)
                                                               << 4;
        }
      }
    }
    if constexpr (kStep < 4) {
      const int shift = (first_key + block.thread_key) / 32 % 4 * 8;
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
#pragma unroll
        for (int i = 0; i < kWords; ++i) {
          const uint64 high = i + 1 < kGroups ? word[r][i + 1] : 0;
          word[r][i] = static_cast<uint32>((high << 32 | word[r][i]) >> shift);
        }
      }
    }
  }
  ATTNJIT_DEVICE bool is_zero(int line, int key) const {
    constexpr int kBits = kShape.neighbours(), kPerWord = 32 / kBits;
    const int span = key / kShape.span();
    const int bit = kBits * (span % kPerWord) + key % kShape.span();
    return (word[kPerPair ? line : 0][span / kPerWord] >> bit & 1) == 0;
  }
};

// For scores with keys in rows, of a plane that all queries share.
template <ScoreShape kShape>
struct KeyBits {
  static_assert(!kShape.queries_in_rows());
  static constexpr int kKeys = 2 * kShape.row_tiles;  // 8 apart

  uint32 byte[kKeys];

  // Keys past the tensor are bits too, up to those that its words make up.
  template <class Source>
  ATTNJIT_DEVICE void read(const Source& source, const Block& block, int first_key) {
    const auto* const bytes = reinterpret_cast<const uint8*>(source.words);
#pragma unroll
    for (int i = 0; i < kKeys; ++i) {
      byte[i] = ptx::load_global_now(bytes + packed_byte(first_key + block.thread_key + 8 * i));
    }
  }
  ATTNJIT_DEVICE void settle(const Block& block, int) {
#pragma unroll
    for (int i = 0; i < kKeys; ++i) byte[i] >>= block.thread_key & 7;
  }
  ATTNJIT_DEVICE bool is_zero(int, int key) const { return (byte[key / 8] & 1) == 0; }
};

// For scores with keys in rows, of a plane whose bits lie by keys, the source's `columns`.
template <ScoreShape kShape>
struct ColumnBits {
  static_assert(!kShape.queries_in_rows());
  static constexpr int kKeys = 2 * kShape.row_tiles;  // 8 apart
  static constexpr int kTiles = kShape.block_q / kMaskTile;

  uint32 quarter[kKeys][kTiles];  // of a column: bit i is that of line i of its tile

  // Keys past the tensor are bits too, up to those that its words make up; tiles past the last are
  // of no query.
  template <class Source>
  ATTNJIT_DEVICE void read(const Source& source, const Block& block, int first_key) {
    const int first_tile = block.first_query / kMaskTile, keys = source.params.padded_keys();
    const int num_tiles = source.params.num_q_tiles - first_tile;
    const int lane_quarter = block.thread_row % 8 / 2;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      const auto* const column = reinterpret_cast<const uint16*>(
          source.columns + (first_tile + int64{tile}) * keys + first_key + block.thread_key);
#pragma unroll
      for (int i = 0; i < kKeys; ++i) {
        quarter[i][tile] = tile == 0 || tile < num_tiles
                               ? ptx::load_global_now(column + 4 * 8 * i + lane_quarter)
                               : 0;
      }
    }
  }
  ATTNJIT_DEVICE void settle(const Block&, int) {}
  ATTNJIT_DEVICE bool is_zero(int line, int key) const {
    return (quarter[key / 8][line / 16] >> line % 16 & 1) == 0;
  }
};

}  // namespace attnjit::kernel

// ---- attnjit/score/mask_classes.cuh

// The classes of a mask's tiles of kMaskTile by kMaskTile, united to what a kernel's tile needs.
namespace attnjit::kernel {

// Classes that tiles of `size` neighbours touch at most; a tile begins at each multiple of `size`.
ATTNJIT_INLINE_CONSTEXPR int classes_touched(int size) {
  const int lowest_bit = size & -size;
  const int step = lowest_bit < kMaskTile ? lowest_bit : kMaskTile;
  return ceil_div(kMaskTile - step + size, kMaskTile);
}

// Those of one axis that the tile of kSize neighbours from `first` on touches, of `count` in all:
// the first, and the last one at most.
struct ClassRange {
  int begin, last;

  ATTNJIT_DEVICE int at(int i) const { return begin + i < last ? begin + i : last; }
};
template <int kSize>
ATTNJIT_DEVICE ClassRange touched_classes(int first, int count) {
  const int begin = first / kMaskTile;
  int last = count - 1;
  // Neither a part of a class nor several whole ones: some tiles touch fewer than others.
  if constexpr (kMaskTile % kSize != 0 && kSize % kMaskTile != 0) {
    const int touched = (first + kSize - 1) / kMaskTile;
    last = touched < last ? touched : last;
  }
  return {begin, last};
}

// The use of the tile of kQueries by kKeys that begins at (first_query, first_key), by `classes`
// [num_q_tiles][num_kv_tiles]: one decides only if all that are touched agree. One that is looked
// at twice, where a tile reaches past the mask, changes nothing.
template <int kQueries, int kKeys>
ATTNJIT_DEVICE TileUse united_use(const uint8* classes, int num_q_tiles, int num_kv_tiles,
                                  int first_query, int first_key) {
  const ClassRange rows = touched_classes<kQueries>(first_query, num_q_tiles);
  const ClassRange columns = touched_classes<kKeys>(first_key, num_kv_tiles);
  bool any = false, all = true;
#pragma unroll
  for (int i = 0; i < classes_touched(kQueries); ++i) {
    const uint8* const row = classes + static_cast<int64>(rows.at(i)) * num_kv_tiles;
#pragma unroll
    for (int j = 0; j < classes_touched(kKeys); ++j) {
      const auto use = static_cast<TileUse>(ptx::load_global_written(row + columns.at(j)));
      any |= use != TileUse::kSkip;
      all &= use == TileUse::kPlain;
    }
  }
  return !any ? TileUse::kSkip : all ? TileUse::kPlain : TileUse::kMasked;
}

}  // namespace attnjit::kernel

// ---- attnjit/tile/tile_votes.cuh

namespace attnjit::kernel {

// The uses of the 32 tiles of keys at hand, as bits: each lane finds out about one tile, and two
// votes tell all of them.
struct TileVotes {
  int known = -1;  // the group of 32 tiles at hand
  uint32 active = 0, partial = 0;

  ATTNJIT_DEVICE void begin() { known = -1; }
  // The use of `tile`, by use_of(tile) of those whose group it is in. Warps call it whole.
  template <class UseOf>
  ATTNJIT_DEVICE TileUse use(int tile, UseOf use_of) {
    if (tile / 32 != known) {
      known = tile / 32;
      const TileUse lanes_use = use_of(known * 32 + ptx::lane_index());
      active = ptx::warp_ballot(lanes_use != TileUse::kSkip);
      partial = ptx::warp_ballot(lanes_use == TileUse::kMasked);
    }
    const uint32 bit = 1u << (tile & 31);
    if ((active & bit) == 0) return TileUse::kSkip;
    return (partial & bit) != 0 ? TileUse::kMasked : TileUse::kPlain;
  }
};

}  // namespace attnjit::kernel

namespace attnjit::kernel {

// Drops keys by a boolean mask that mask_pack.cuh has packed to bits and classified.
// Empty tiles are skipped before their K and V are read; full ones run without mask code. Packed
// heads share the mask: one that varies over the heads of a kv head is not for a config that packs.
template <ScoreShape kShape, Extent kExtent>
struct PackedMask : Feature {
  static constexpr bool kPerPair = kExtent == Extent::kPerPair;
  static constexpr bool kPicksKeys = !kPerPair;
  static constexpr bool kAwaits = true;

  const PackedMaskParams& params;
  const uint32* words;   // of the block's plane
  const uint8* classes;  // of that plane, from the first row of them that the block touches
  int class_rows;        // from there on
  TileVotes votes;
  RowBits<kShape, kExtent> bits;

  ATTNJIT_DEVICE explicit PackedMask(const PackedMaskParams& p)
      : params(p), words(nullptr), classes(nullptr), class_rows(0) {}

  ATTNJIT_DEVICE void begin(const Block& block) {
    const int64 plane = static_cast<int64>(block.batch) * params.planes_per_batch +
                        block.head / params.heads_per_plane;
    words = params.words + plane * params.words_per_plane;
    // Found here and not for each group of tiles: registers are scarce in the loop.
    const int first_class = kPerPair ? block.first_query / kMaskTile : 0;
    classes = params.classes + plane * params.classes_per_plane +
              static_cast<int64>(first_class) * params.num_kv_tiles;
    class_rows = params.num_q_tiles - first_class;
    votes.begin();
  }
  ATTNJIT_DEVICE TileUse use(const Block& block, int tile) {
    return votes.use(tile, [&](int lanes_tile) { return use_of_lane(block, lanes_tile); });
  }
  ATTNJIT_DEVICE TileUse use_of_lane(const Block& block, int tile) const {
    constexpr int kQueries = kPerPair ? kShape.block_q / kShape.packed_heads : 1;
    return united_use<kQueries, kShape.block_kv>(classes, class_rows, params.num_kv_tiles,
                                                 kPerPair ? block.first_query % kMaskTile : 0,
                                                 tile * kShape.block_kv);
  }
  // A key that no query keeps is dropped here already, so that a NaN stored there stays there.
  ATTNJIT_DEVICE bool reads_key(int key) const {
    if constexpr (kPerPair) return true;
    const auto* const bytes = reinterpret_cast<const uint8*>(words);
    return (ptx::load_global_written(bytes + packed_byte(key)) >> (key & 7) & 1) != 0;
  }
  ATTNJIT_DEVICE void fetch(const Block& block, int first_key, TileUse tile_use) {
    if (tile_use == TileUse::kMasked) bits.read(*this, block, first_key);
  }
  template <class S>
  ATTNJIT_DEVICE void mask(const Block& block, S& scores, int first_key) {
    bits.settle(block, first_key);
    for_each_score<kShape>(scores, [&](float& score, int line, int key) {
      if (bits.is_zero(line, key)) score = -ptx::infinity();
    });
  }

  template <class K>
  ATTNJIT_DEVICE void keep(const Block& block, K& kept, int first_key) {
    bits.settle(block, first_key);
#pragma unroll
    for (int line = 0; line < kShape.lines(); ++line) {
#pragma unroll
      for (int i = 0; i < K::kWords; ++i) kept.word[line][i] &= bits.word[kPerPair ? line : 0][i];
    }
  }
};

}  // namespace attnjit::kernel

// ---- attnjit/score/band.cuh

// ---- attnjit/score/band_params.h

namespace attnjit::kernel {

// Axis limits of a window around the diagonal; causal is right = 0 without a left limit.
struct BandParams {
  // Keys before / after the diagonal, used where the config bounds that side; negative where it ends
  // on the other side.
  int32 left, right;
  int32 bottom_right;  // 1: the diagonal ends at the last query and key; 0: it starts at the first
};

}  // namespace attnjit::kernel

namespace attnjit::kernel {

// Keeps query + off - left <= key <= query + off + right, and drops the keys past the end. The
// sides that are open are not compiled.
template <ScoreShape kShape, bool kLeft, bool kRight>
struct Band : Feature {
  static constexpr bool kNarrows = true;

  const BandParams& params;
  int diagonal;  // off: key of query 0 on the diagonal

  ATTNJIT_DEVICE explicit Band(const BandParams& p) : params(p), diagonal(0) {}

  // First and one past the last key that `query` sees.
  ATTNJIT_DEVICE int begin_key(int query) const { return query + diagonal - params.left; }
  ATTNJIT_DEVICE int end_key(const Block& block, int query) const {
    if constexpr (!kRight) return block.kv_len;
    const int end = query + diagonal + params.right + 1;
    return end < block.kv_len ? end : block.kv_len;
  }

  ATTNJIT_DEVICE void begin(const Block& block) {
    if (params.bottom_right) diagonal = block.bottom_right();
  }
  template <class Team>
  ATTNJIT_DEVICE void narrow(Team, const Block& block, KeyRange& keys) {
    if (block.end_query <= block.first_query) {
      keys.end = keys.begin;
      return;
    }
    const int end = end_key(block, block.end_query - 1);
    if (end < keys.end) keys.end = end;
    if constexpr (kLeft) {
      const int first = begin_key(block.first_query);
      if (first > keys.begin) keys.begin = first;
    }
  }
  ATTNJIT_DEVICE TileUse use(const Block& block, int tile) {
    const int first = tile * kShape.keys();
    bool cut = first + kShape.keys() > end_key(block, block.first_query);
    if constexpr (kLeft) cut |= first < begin_key(block.end_query - 1);
    return cut ? TileUse::kMasked : TileUse::kPlain;
  }
  template <class S>
  ATTNJIT_DEVICE void mask(const Block& block, S& scores, int first_key) {
    const int origin = first_key + block.thread_key;
    for_each_row<kShape>(block, scores, [&, origin](int row, auto for_each_key) {
      const int query = row / kShape.packed_heads;
      const int end = end_key(block, query) - origin;
      const int begin = kLeft ? begin_key(query) - origin : 0;
      for_each_key([begin, end](float& score, int key) {
        if (key >= end || (kLeft && key < begin)) score = -ptx::infinity();
      });
    });
  }
  template <class K>
  ATTNJIT_DEVICE void keep(const Block& block, K& kept, int first_key) {
    const int origin = first_key + block.thread_key;
#pragma unroll
    for (int line = 0; line < kShape.lines(); ++line) {
      const int query = (block.thread_row + ScoreShape(kShape).row(line)) / kShape.packed_heads;
      kept.before(line, end_key(block, query) - origin);
      if constexpr (kLeft) kept.from(line, begin_key(query) - origin);
    }
  }
};

}  // namespace attnjit::kernel

using namespace attnjit::kernel;

inline constexpr ForwardConfig kConfig{
    .dtype = DType::kFloat16,
    .head_dim = 96,
    .head_dim_v = 64,
    .gqa_ratio = 4,
    .aligned = true,
    .scale_first = true,
    .pack_heads = false,
    .block_q = 64,
    .block_kv = 32,
    .num_stages = 1,
    .num_warps = 4,
    .min_blocks = 2,
    .softmax = SoftmaxPolicy::kMaxFree,
};
inline constexpr ScoreShape kScores = kConfig.scores();

extern "C" __global__ void __launch_bounds__(kConfig.num_threads(), kConfig.min_blocks)
attn_fwd(
    const __grid_constant__ ForwardParams params,
    const __grid_constant__ SeqlensParams seqlens,
    const __grid_constant__ OperandParams bias,
    const __grid_constant__ PackedMaskParams mask,
    const __grid_constant__ BandParams band) {
  forward<kConfig>(params,
    Seqlens(seqlens),
    Bias<kScores, DType::kFloat32, Extent::kPerPair, false>(bias),
    PackedMask<kScores, Extent::kPerPair>(mask),
    Band<kScores, true, true>(band));
}
