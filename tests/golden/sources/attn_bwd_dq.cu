// attn_bwd_dq fp16 d96 dv64 gqa4 right mask=qk bias=qk,fp32 dbias=qk,fp32,reduced,few deterministic | q128 kv32 s2 w8 qw8 b1

// ---- attnjit/backward_dq_mma.cuh

// ---- attnjit/backward_query_walk.cuh

// ---- attnjit/backward_block.cuh

// ---- attnjit/backward_params.h

// ---- attnjit/forward_params.h

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

namespace attnjit::kernel {

// Rows of one (batch, query head) in the arrays below: seqlen_q rounded up to this.
inline constexpr int kRowBlock = 64;

// Probabilities are multiplied by this when they are rounded, and dv by its inverse: fp16 would
// keep fewer digits below 2^-14, and none below 2^-25. P is 1 at most, so that its multiple fits.
ATTNJIT_CONSTEXPR float probability_scale(DType dtype) {
  return dtype == DType::kFloat16 ? 16384.0f : 1.0f;
}

// The bytes of what is taken off the scores and off dP of a row, as the matrix units take it: eight
// bf16 numbers, of which the first three add up to -lse / scale, the next three to -delta, and the
// last two are 0. Three bf16 numbers hold the 24 bits of a float.
inline constexpr int kRowPieceBytes = 16;

// What the preprocess kernel tells of each row; [batch][query head][padded row].
struct GradientRows {
  float* lse;    // +inf for a dead row: its probabilities become 0
  float* delta;  // rowsum(dout out) - dlse, 0 for a dead row
  uint32* live;  // a bit per row, [batch][query head][padded row / 32]
};

// Run-time arguments of the kernels of the backward that compute scores. Where gradients are added
// up in fp32, they lie as fragments of 16 rows by 8 columns, 128 floats each, in the order that
// ptx/accumulate.cuh has them: [plane][row / 16][column / 8][128].
struct BackwardParams {
  const void* q;     // [batch, num_heads_q, seqlen_q, head_dim]
  const void* k;     // [batch, num_heads_q / gqa_ratio, seqlen_kv, head_dim]
  const void* v;     // [batch, num_heads_q / gqa_ratio, seqlen_kv, head_dim_v]
  const void* dout;  // [batch, num_heads_q, seqlen_q, head_dim_v]
  void* dq;          // as q
  void* dk;          // as k
  void* dv;          // as v
  GradientRows rows;
  float* dq_sum;  // fragments of dq / scale where the config adds_dq; planes are query heads
  float* dk_sum;  // fragments of dk / scale, used where num_splits > 1; planes are kv heads
  float* dv_sum;  // fragments of dv times probability_scale(), likewise
  RowStrides q_strides, k_strides, v_strides, dout_strides, dq_strides, dk_strides, dv_strides;
  int32 batch;
  int32 num_heads_q;
  int32 seqlen_q;
  int32 seqlen_kv;
  int32 padded_rows;         // seqlen_q rounded up to kRowBlock
  int32 num_q_tiles;         // ceil(seqlen_q / block_q)
  int32 num_kv_tiles;        // ceil(seqlen_kv / block_kv)
  int32 num_splits;          // shares of a key tile's queries, each a thread block of its own
  int32 num_planes;          // kv heads of all batch elements
  int32 section_planes;      // planes whose tiles take turns
  int32 last_keys_first;     // 1: thread blocks with the last keys begin first, not the first
  int32 last_queries_first;  // 1: each begins with the last queries; path wgmma, like the next
  int32 heads_abreast;       // query heads of a kv head whose tiles alternate
  int32 batch_fastest;       // 1: batch elements of a head follow each other, for they share a bias
  float scale;               // of the scores
  float score_scale;         // multiplies q k^T when the config says scale_first
  float exponent_scale;      // scores to log2 units: log2(e), times the scale unless scale_first
};

}  // namespace attnjit::kernel

// ---- attnjit/ptx/memory.cuh

// ---- attnjit/ptx/device.cuh
// How device functions are declared. The CPU executor supplies its own version of this folder.
#define ATTNJIT_DEVICE __device__ __forceinline__

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

// ---- attnjit/score/gradient_feature.cuh

// ---- attnjit/score/feature.cuh

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

namespace attnjit::kernel {

// Features as the backward sees them: the verbs of the forward, called for the part of a tile that
// a warp computes, and two more, which a feature may lack:
//
//   TileUse tile_use(batch, head, q_tile, kv_tile)   what a whole tile needs
//   void prefetch(team, block, head, q_tile, kv_tile)   the tile is next; the team calls it together
template <class... Features>
struct GradientFeatures : FeatureSet<Features...> {
  using FeatureSet<Features...>::FeatureSet;

  ATTNJIT_DEVICE TileUse tile_use(int batch, int head, int q_tile, int kv_tile) const {
    TileUse lowest = TileUse::kPlain;
    (lower<Features>(lowest, batch, head, q_tile, kv_tile), ...);
    return lowest;
  }
  template <class Team>
  ATTNJIT_DEVICE void prefetch(Team team, const Block& block, int head, int q_tile,
                               int kv_tile) const {
    (prefetch_one<Features>(team, block, head, q_tile, kv_tile), ...);
  }

 private:
  template <class F, class Team>
  ATTNJIT_DEVICE void prefetch_one(Team team, const Block& block, int head, int q_tile,
                                   int kv_tile) const {
    if constexpr (requires(const F& f) { f.prefetch(team, block, head, q_tile, kv_tile); }) {
      F::prefetch(team, block, head, q_tile, kv_tile);
    }
  }
  template <class F>
  ATTNJIT_DEVICE void lower(TileUse& lowest, int batch, int head, int q_tile, int kv_tile) const {
    if constexpr (requires(const F& f) { f.tile_use(batch, head, q_tile, kv_tile); }) {
      const TileUse use = F::tile_use(batch, head, q_tile, kv_tile);
      lowest = use < lowest ? use : lowest;
    }
  }
};

}  // namespace attnjit::kernel

// ---- attnjit/score/score_shape.h

// ---- attnjit/tile/key_order.h

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

// ---- attnjit/tile/live_rows.cuh

// ---- attnjit/ptx/copy_if.cuh

namespace attnjit::kernel::ptx {

// Copies as copy_async_16() does, with `valid` as a predicate instead of a size: four instructions less
// per copy where it is a bit of a word. The forward keeps the other, with which its tiles were tuned.
ATTNJIT_DEVICE void copy_async_16_if(bool valid, uint32 shared, const void* global) {
  asm volatile(
      "{\n.reg .pred ignore;\n"
      "setp.eq.u32 ignore, %2, 0;\n"
      "cp.async.cg.shared.global [%0], [%1], 16, ignore;\n}" ::"r"(shared),
      "l"(global), "r"(static_cast<uint32>(valid))
      : "memory");
}

}  // namespace attnjit::kernel::ptx

// ---- attnjit/ptx/opaque.cuh

namespace attnjit::kernel::ptx {

// `value`, of which the compiler must not know that it is the same as last time: what follows from
// it is computed anew in each turn of a loop instead of being kept in registers through all of it.
template <class T>
ATTNJIT_DEVICE T opaque(T value) {
  asm volatile("" : "+r"(value));
  return value;
}

}  // namespace attnjit::kernel::ptx

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

// ---- attnjit/tile/cursor.cuh

namespace attnjit::kernel {

// A tile of scores on their way from the warps that compute them to those that multiply by them:
// [kRows][kColumns] of 16-bit elements; kColumns is 32 or a multiple of 64. As SharedTile, but its
// twist also keeps the stores apart that write four chunks in each of two rows at a time.
template <int kRows, int kColumns>
struct ScoreTile {
  uint32 base;  // a multiple of 128

  ATTNJIT_CONSTEXPR static int twist(int row) {
    return ((row & 1) << 2 | (row >> 1 & 3)) ^ (row >> 3 & 3);
  }
};

// Addresses of chunks in a tile around a place that differs from lane to lane, so that one xor per
// chunk is left for the inner loop, and an offset that the instruction holds. Both twists are
// linear over xor: they may be taken bit by bit. The tile's columns are 32 or a multiple of 64.
template <class Tile, int kRows, int kChunks>
struct TileCursor {
  static constexpr int kLineBytes = kChunks < 8 ? 64 : 128;
  static constexpr int kMask = kChunks < 8 ? 3 : 7;
  static constexpr int kShift = kChunks < 8 ? 1 : 0;  // narrow lines use the twist's high bits
  uint32 line;

  // At `chunk` of `row`.
  ATTNJIT_DEVICE TileCursor(uint32 base, int row, int chunk)
      : line(base + row * kLineBytes + (chunk / (kMask + 1)) * (kRows * 128) +
             (((Tile::twist(row) >> kShift ^ chunk) & kMask) << 4)) {}

  // `rows` and `chunks` further, both known at compile time; they share no bit with where the
  // cursor stands.
  ATTNJIT_DEVICE uint32 at(int rows, int chunks) const {
    const int twisted = (Tile::twist(rows) >> kShift ^ chunks) & kMask;
    return (line ^ (twisted << 4)) + rows * kLineBytes + chunks / (kMask + 1) * (kRows * 128);
  }
};

template <int kRows, int kColumns>
ATTNJIT_DEVICE auto cursor(const ScoreTile<kRows, kColumns>& tile, int row, int chunk) {
  return TileCursor<ScoreTile<kRows, kColumns>, kRows, kColumns / 8>(tile.base, row, chunk);
}

// Stands for a TileCursor where a tile's columns do not allow one: every address is computed.
template <class Tile>
struct SlowCursor {
  Tile tile;
  int row, chunk;
  ATTNJIT_DEVICE uint32 at(int rows, int chunks) const {
    return tile.address(row + rows, chunk + chunks);
  }
};

template <int kRows, int kColumns>
ATTNJIT_DEVICE auto cursor(const SharedTile<kRows, kColumns>& tile, int row, int chunk) {
  if constexpr (kColumns % 64 == 0 || kColumns == 32) {
    return TileCursor<SharedTile<kRows, kColumns>, kRows, kColumns / 8>(tile.base, row, chunk);
  } else {
    return SlowCursor<SharedTile<kRows, kColumns>>{tile, row, chunk};
  }
}

}  // namespace attnjit::kernel

namespace attnjit::kernel {

// Which rows of a tile of up to 128 queries are live, a bit each. No array: one with a run-time
// index would leave the registers.
struct LiveRows {
  uint64 low = 0, high = 0;  // rows 0 ... 63 and 64 ... 127

  ATTNJIT_DEVICE void set(int word, uint32 bits) {
    (word < 2 ? low : high) |= static_cast<uint64>(bits) << (32 * (word & 1));
  }
  ATTNJIT_DEVICE bool any() const { return (low | high) != 0; }
  ATTNJIT_DEVICE bool has(int row) const {
    return ((row < 64 ? low : high) >> (row & 63) & 1) != 0;
  }
  // The rows that `lane` holds.
  template <int kRows>
  ATTNJIT_DEVICE LiveRows broadcast(int lane) const {
    LiveRows result;
#pragma unroll
    for (int word = 0; word < kRows / 32; ++word) {
      const uint64 half = word < 2 ? low : high;
      result.set(word, ptx::warp_broadcast(static_cast<uint32>(half >> (32 * (word & 1))), lane));
    }
    return result;
  }
};

// Starts loading `tile` from rows of 16-bit elements, `stride` apart, of which kColumns are valid.
// Rows that are not live become zero and are not read. kFresh: addresses are computed anew each
// time. The caller commits, waits and synchronises.
template <bool kAligned, int kColumns, int kThreads, bool kFresh, int kRows, int kPadded>
ATTNJIT_DEVICE void load_live_rows(const SharedTile<kRows, kPadded>& tile, const uint16* source,
                                   int64 stride, const LiveRows& live) {
  constexpr int kChunks = kPadded / 8;
  constexpr int kStep = kThreads / kChunks;  // rows from one chunk of a thread to the next
  constexpr bool kSteady = kAligned && kColumns == kPadded && kThreads % kChunks == 0 &&
                           kRows % kStep == 0 && (kStep & (kStep - 1)) == 0 && kStep <= 32;
  if constexpr (kSteady) {
    // All that differs from chunk to chunk is known at compile time but the step of the pointer.
    const int thread = kFresh ? ptx::opaque(ptx::thread_index()) : ptx::thread_index();
    const int row = thread / kChunks;
    const int chunk = thread % kChunks;
    const auto target = cursor(tile, row, chunk);
    const uint64 low = live.low >> row;
    const uint64 high = live.high >> row;
    const uint16* address = source + row * stride + chunk * 8;
    const int64 step = kStep * stride;
#pragma unroll
    for (int i = 0; i < kRows; i += kStep, address += step) {
      const bool valid = ((i < 64 ? low : high) >> (i & 63) & 1) != 0;
      ptx::copy_async_16_if(valid, target.at(i, 0), address);
    }
  } else {
    load_tile<kAligned, kColumns, kThreads>(
        tile, [=](int row) { return source + row * stride; },
        [&](int row) { return live.has(row); });
  }
}

}  // namespace attnjit::kernel

// The place of a thread block of the backward, whichever its main loop.
namespace attnjit::kernel {

// A batch element, one of its heads and a tile of queries, as seen by the warps of `TheTeam`, which
// call the functions together.
template <ScoreShape kShape, class Features, class TheTeam>
struct BackwardBlock {
  using Team = TheTeam;
  static constexpr int kBlockQ = kShape.block_q;
  static constexpr int kBlockKv = kShape.block_kv;
  static constexpr int kGqaRatio = kShape.gqa_ratio;
  static constexpr bool kPacksSequences = Features::kPacksSequences;

  const BackwardParams& params;
  Features features;
  Block block;
  int known;          // the group of 32 tiles that is looked up, or -1
  uint32 some, part;  // its tiles with a kept key, and those that need the mask

  ATTNJIT_DEVICE BackwardBlock(const BackwardParams& p, const Features& f)
      : params(p), features(f), known(-1), some(0), part(0) {}

  template <class T>
  ATTNJIT_DEVICE static T* head_of(T* base, const RowStrides& strides, int batch, int head) {
    return base + batch * strides.batch + head * strides.head;
  }
  // The first row of a query head, or the first key of the kv head at hand.
  template <class T>
  ATTNJIT_DEVICE T* query_rows(T* base, const RowStrides& strides, int head) const {
    return rows_of(head_of(base, strides, block.tensor_batch, head), strides, block.q_begin);
  }
  template <class T>
  ATTNJIT_DEVICE T* key_rows(T* base, const RowStrides& strides) const {
    return rows_of(head_of(base, strides, block.tensor_batch, kv_head()), strides, block.kv_begin);
  }
  // Rows of a packed sequence, of which `begin` is the first. Otherwise that is 0, which the
  // compiler learns too late to order its sums as if nothing were added.
  template <class T>
  ATTNJIT_DEVICE static T* rows_of(T* head, const RowStrides& strides, int begin) {
    if constexpr (kPacksSequences) return head + begin * strides.row;
    return head;
  }
  ATTNJIT_DEVICE int kv_head() const { return block.head / kGqaRatio; }

  // Turns to a batch element, then to one of its query heads.
  ATTNJIT_DEVICE void enter_batch(int batch, int head) {
    block.enter(batch, params.seqlen_q, params.seqlen_kv);
    block.thread_key = ScoreShape(kShape).lane_key(ptx::lane_index());
    features.set_lengths(block);
    block.num_rows = block.seqlen_q;
    enter_head(head);
  }
  ATTNJIT_DEVICE void enter_head(int head) {
    block.head = head;
    features.begin(block);
  }
  ATTNJIT_DEVICE static void set_rows(Block& block, int q_tile) {
    block.first_row = block.first_query = q_tile * kBlockQ;
    const int end = block.first_row + kBlockQ;
    block.end_row = block.end_query = end < block.query_len ? end : block.query_len;
  }

  // The use of tile `index` of a walk, which use_of(index) computes. Each lane asks for one of 32
  // tiles, so that their latencies are paid together; two votes make bits of the answers.
  template <class UseOf>
  ATTNJIT_DEVICE TileUse look_up(int index, UseOf use_of) {
    if (index / 32 != known) {
      known = index / 32;
      const TileUse use = use_of(known * 32 + ptx::lane_index());
      some = ptx::warp_ballot(use != TileUse::kSkip);
      part = ptx::warp_ballot(use == TileUse::kMasked);
    }
    const uint32 bit = 1u << (index & 31);
    if ((some & bit) == 0) return TileUse::kSkip;
    return (part & bit) != 0 ? TileUse::kMasked : TileUse::kPlain;
  }

  // The keys that queries of the tile may see, mask aside.
  ATTNJIT_DEVICE KeyRange keys_of(int q_tile) {
    Block rows = block;
    set_rows(rows, q_tile);
    return keys_of(rows);
  }
  // The keys that any query of the head may see, mask aside.
  ATTNJIT_DEVICE KeyRange keys_of_head() {
    Block rows = block;
    rows.first_row = rows.first_query = 0;
    rows.end_row = rows.end_query = block.query_len;
    return keys_of(rows);
  }
  ATTNJIT_DEVICE KeyRange keys_of(const Block& rows) {
    KeyRange keys = {0, block.kv_len};
    features.narrow(Team(), rows, keys);
    return keys;
  }

  // The rows of a query head in the arrays that the kernels of the backward hand to each other: the
  // first one, and how many there are.
  struct PaddedRows {
    int64 first;
    int count;
  };
  ATTNJIT_DEVICE PaddedRows padded_rows_of(int head) const {
    const int64 plane = static_cast<int64>(block.tensor_batch) * params.num_heads_q + head;
    const int64 first = plane * params.padded_rows;
    if constexpr (kPacksSequences) return {first + block.padded_begin, block.padded_rows};
    return {first, params.padded_rows};
  }
  // Tiles of queries that a head has.
  ATTNJIT_DEVICE int num_q_tiles() const {
    if constexpr (kPacksSequences) return ceil_div(block.query_len, kBlockQ);
    return params.num_q_tiles;
  }

  ATTNJIT_DEVICE LiveRows load_live(int head, int q_tile) const {
    const int64 plane = static_cast<int64>(block.tensor_batch) * params.num_heads_q + head;
    int words = params.padded_rows / 32;
    int64 first = plane * words;
    if constexpr (kPacksSequences) {
      words = block.padded_rows / 32;
      first += block.padded_begin / 32;
    }
    LiveRows live;
#pragma unroll
    for (int i = 0; i < kBlockQ / 32; ++i) {
      const int word = q_tile * (kBlockQ / 32) + i;
      if (word < words) live.set(i, ptx::load_global_written(params.rows.live + first + word));
    }
    return live;
  }
};

}  // namespace attnjit::kernel

// ---- attnjit/tile/schedule.cuh

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

namespace attnjit::kernel {

// The walk of a thread block that keeps a tile of queries of one head: over the tiles of keys that
// they see. `Base` is a BackwardBlock.
template <class Base>
struct QueryTileWalk : Base {
  using Base::Base;
  using Base::block, Base::features, Base::params;
  using Base::kBlockKv, Base::kBlockQ, Base::kGqaRatio;

  // A tile of keys to be worked on; none after the last.
  struct Job {
    int tile;
    TileUse use;  // what the mask says
    ATTNJIT_DEVICE bool exists() const { return use != TileUse::kSkip; }
  };

  int q_tile_index;
  KeyRange keys;
  int next_tile, end_tile;

  // Finds the block's place. Later rows come first: under a causal mask they take longest.
  ATTNJIT_DEVICE void locate() {
    const uint32 tiles = params.num_q_tiles;
    // Planes are query heads here.
    const struct {
      uint32 section_planes, num_planes;
    } heads = {static_cast<uint32>(params.section_planes) * kGqaRatio,
               static_cast<uint32>(params.num_planes) * kGqaRatio};
    const auto [plane, part] = find_plane_part(heads, tiles);
    int batch = static_cast<int>(plane / params.num_heads_q);
    q_tile_index =
        features.template find_queries<1>(batch, static_cast<int>(tiles - 1 - part), kBlockQ);
    this->enter_batch(batch, static_cast<int>(plane % params.num_heads_q));
    this->set_rows(block, q_tile_index);
    keys = this->keys_of(q_tile_index);
    next_tile = keys.begin / kBlockKv;
    end_tile = (keys.end + kBlockKv - 1) / kBlockKv;
  }

  // Whether the block has queries: packed sequences leave numbers of tiles over.
  ATTNJIT_DEVICE bool has_queries() const {
    return !Base::kPacksSequences || block.first_row < block.seqlen_q;
  }

  ATTNJIT_DEVICE Job next_job() {
    while (next_tile < end_tile) {
      const int tile = next_tile++;
      const TileUse use = this->look_up(tile, [&](int index) {
        return index < end_tile ? features.tile_use(block.batch, block.head, q_tile_index, index)
                                : TileUse::kSkip;
      });
      if (use != TileUse::kSkip) return {tile, use};
    }
    return {0, TileUse::kSkip};
  }
};

}  // namespace attnjit::kernel

// ---- attnjit/backward_scores_mma.cuh

// ---- attnjit/backward_config.h

namespace attnjit::kernel {

// Values that are computed anew for each tile of queries, to save registers: those that follow from
// the base of shared memory, from the number of the warp (both in the kernel of dk and dv alone),
// and from that of the thread, for copies.
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

// Everything that specialises a kernel of the backward that computes scores, apart from its
// features. The kernel of dk and dv, that of dq and that of dbias take values of their own.
struct BackwardConfig {
  DType dtype;       // of q, k, v, out and their gradients: 16 bits wide
  int head_dim;      // columns of q and k, 1 ... 256
  int head_dim_v;    // columns of v and out, 1 ... 256
  int gqa_ratio;     // query heads that share one kv head
  bool aligned;      // all tensors move in 16-byte pieces; else element by element
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


  ATTNJIT_CONSTEXPR bool refreshes(Fresh part) const {
    return (static_cast<int>(fresh) & static_cast<int>(part)) != 0;
  }
  ATTNJIT_CONSTEXPR int num_threads() const { return num_warps * 32; }
  ATTNJIT_CONSTEXPR float probability_scale() const { return kernel::probability_scale(dtype); }
  ATTNJIT_CONSTEXPR int padded_head_dim() const { return round_up(head_dim, 16); }
  ATTNJIT_CONSTEXPR int padded_head_dim_v() const { return round_up(head_dim_v, 16); }
  // The part of a tile of scores that one warp computes.
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
            .packed_heads = 1,
            .gqa_ratio = gqa_ratio};
  }
  // Whether half of the warps have no scores: they add the tile's part of dq to its sums while the
  // others compute the scores of the next tile.
  ATTNJIT_CONSTEXPR bool defers_dq() const { return adds_dq && 2 * score_warps() == num_warps; }
  ATTNJIT_CONSTEXPR int dq_warps() const { return defers_dq() ? score_warps() : num_warps; }
  // Rows of a product of `rows` rows that each of `warps` computes: 32, or 16 where that goes
  // round; 0 where neither does. The other warps share its columns.
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
};

// The rule that `config` breaks, or nullptr. Architecture limits (shared memory) are the host's.
ATTNJIT_CONSTEXPR const char* why_invalid(const BackwardConfig& config) {
  if (config.dtype == DType::kFloat32) return "dtype must be fp16 or bf16";
  if (config.head_dim < 1 || config.head_dim > 256) return "head_dim must be 1 to 256";
  if (config.head_dim_v < 1 || config.head_dim_v > 256) return "head_dim_v must be 1 to 256";
  if (config.gqa_ratio < 1) return "gqa_ratio must be at least 1";
  if (config.aligned && (config.head_dim % 8 != 0 || config.head_dim_v % 8 != 0))
    return "aligned needs head_dim and head_dim_v to be multiples of 8";
  if (config.num_warps < 1 || config.num_warps > 16) return "num_warps must be 1 to 16";
  if (config.query_warps < 1 || config.num_warps % config.query_warps != 0)
    return "query_warps must divide num_warps";
  if (config.block_q != 32 && config.block_q != 64 && config.block_q != 128)
    return "block_q must be 32, 64 or 128 queries";
  if (config.block_kv < 32 || config.block_kv % 32 != 0)
    return "block_kv must be a multiple of 32 keys";
  if (config.block_q % (16 * config.query_warps) != 0)
    return "block_q must be a multiple of 16 rows per warp";
  if (config.block_kv % (32 * config.key_warps()) != 0)
    return "block_kv must be a multiple of 32 keys per warp";
  if (config.product_rows(config.block_q, config.dq_warps()) == 0 ||
      config.product_rows(config.block_kv, config.num_warps) == 0)
    return "num_warps must be a multiple of block_q / 32 and of block_kv / 32";
  if (config.num_stages < 1 || config.num_stages > 2) return "num_stages must be 1 or 2";
  if (config.min_blocks < 1) return "min_blocks must be at least 1";
  return nullptr;
}

}  // namespace attnjit::kernel

// ---- attnjit/ptx/math.cuh

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

// ---- attnjit/tile/products.cuh

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

// ---- attnjit/ptx/transposed.cuh

namespace attnjit::kernel::ptx {

// The A operand of a tile that lies transposed in shared memory: lane l supplies the address of
// depth l % 8 + 8 (l / 16), rows 8 (l / 8 % 2) and the next seven.
ATTNJIT_DEVICE FragmentA load_fragment_a_transposed(uint32 address) {
  FragmentA a;
  load_matrices_transposed(a.word, address);
  return a;
}

}  // namespace attnjit::kernel::ptx

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

// The products of the backward on tiles in shared memory. Each adds a warp's part of the result,
// fragments [row tile of 16][group of 8 columns], to its accumulator. Rows of A begin at a multiple
// of what the warp takes of them, and so do keys.
namespace attnjit::kernel {

// sum += A B^T for rows first_row ... of A and rows first_key ... of B, whose order is KeyOrder's:
// scores from queries and keys.
template <DType kDType, int kDepth, int kRowTiles, int kGroups, class TileA, class TileB>
ATTNJIT_DEVICE void add_scores(Fragments<kRowTiles, kGroups>& sum, const TileA& a_tile, int first_row,
                               const TileB& b_tile, int first_key) {
  const int lane = ptx::lane_index();
  const auto a_cursor = cursor(a_tile, first_row + (lane & 15), lane >> 4);
  const int key = first_key + KeyOrder::row(0, lane & 7) + 2 * (lane >> 4);
  const auto b_cursor = cursor(b_tile, key, lane >> 3 & 1);
#pragma unroll
  for (int depth = 0; depth < kDepth / 16; ++depth) {
    ptx::FragmentA a[kRowTiles];
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
      a[m] = ptx::load_fragment_a(a_cursor.at(16 * m, 2 * depth));
    }
#pragma unroll
    for (int n = 0; n < kGroups; n += 2) {
      const ptx::FragmentBPair b =
          ptx::load_fragment_b(b_cursor.at(KeyOrder::row(n, 0), 2 * depth));
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
        ptx::multiply_accumulate<kDType>(sum[m][n], a[m], b.word[0]);
        ptx::multiply_accumulate<kDType>(sum[m][n + 1], a[m], b.word[1]);
      }
    }
  }
}

// The columns of a result that one of `kWarps` neighbouring warps computes: pairs of groups (16
// columns) dealt out in order, the last warps left with fewer.
template <int kColumns, int kWarps>
struct ColumnShare {
  static constexpr int kPairs = (kColumns / 16 + kWarps - 1) / kWarps;
  static constexpr int kGroups = 2 * kPairs;
  // Whether a warp's groups follow its first one without a carry in their bits.
  static constexpr bool kRound = (kPairs & (kPairs - 1)) == 0;
  int first_pair;

  ATTNJIT_DEVICE explicit ColumnShare(int warp) : first_pair(warp * kPairs) {}
  // First group of pair `p`, of all columns.
  ATTNJIT_DEVICE int group(int p) const { return 2 * (first_pair + p); }
  ATTNJIT_DEVICE bool has(int p) const {
    return kColumns / 16 % kWarps == 0 || first_pair + p < kColumns / 16;
  }
  // At row `row` of the share's first group in a tile of these columns.
  template <int kRows>
  ATTNJIT_DEVICE auto cursor_in(const SharedTile<kRows, kColumns>& tile, int row, int chunk) const {
    if constexpr (kRound) {
      return cursor(tile, row, group(0) + chunk);
    } else {
      return SlowCursor<SharedTile<kRows, kColumns>>{tile, row, group(0) + chunk};
    }
  }
};

// sum += A B for rows first_row ... of A, or of its transpose, and the warp's columns of B. kDepth
// is the number of rows of B.
template <DType kDType, bool kTransposed, int kDepth, int kRowTiles, class Share, class TileA,
          class TileB>
ATTNJIT_DEVICE void add_product(Fragments<kRowTiles, Share::kGroups>& sum, const TileA& a_tile,
                                int first_row, const TileB& b_tile, const Share& share) {
  const int lane = ptx::lane_index();
  const auto a_cursor =
      kTransposed ? cursor(a_tile, (lane & 7) + 8 * (lane >> 4), first_row / 8 + (lane >> 3 & 1))
                  : cursor(a_tile, first_row + (lane & 15), lane >> 4);
  const auto b_cursor = share.cursor_in(b_tile, lane & 15, lane >> 4);
#pragma unroll
  for (int depth = 0; depth < kDepth / 16; ++depth) {
    ptx::FragmentA a[kRowTiles];
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
      if constexpr (kTransposed) {
        a[m] = ptx::load_fragment_a_transposed(a_cursor.at(16 * depth, 2 * m));
      } else {
        a[m] = ptx::load_fragment_a(a_cursor.at(16 * m, 2 * depth));
      }
    }
#pragma unroll
    for (int p = 0; p < Share::kPairs; ++p) {
      if (!share.has(p)) continue;
      const ptx::FragmentBPair b = ptx::load_fragment_b_transposed(b_cursor.at(16 * depth, 2 * p));
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
        ptx::multiply_accumulate<kDType>(sum[m][2 * p], a[m], b.word[0]);
        ptx::multiply_accumulate<kDType>(sum[m][2 * p + 1], a[m], b.word[1]);
      }
    }
  }
}

}  // namespace attnjit::kernel

// ---- attnjit/tile/team.cuh

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

// The part that all kernels of the backward share: one tile of probabilities P and score gradients
// dS,
//
//   S = scale q k^T + features      P = exp(S - lse)
//   dP = dout v^T                   dS = P (dP - delta)
//
// block_q queries by block_kv keys, of which each warp computes warp_queries() by warp_keys(), a
// span of 32 keys at a time: more would not fit its registers. Within a span the keys follow
// KeyOrder, as in the forward.
namespace attnjit::kernel {

template <BackwardConfig kConfig, class Features, ScoreShape kShape = kConfig.scores()>
struct GradientScores : BackwardBlock<kShape, Features, BlockTeam<kConfig.num_threads()>> {
  static_assert(why_invalid(kConfig) == nullptr, "why_invalid(config) in backward_config.h");
  using Base = BackwardBlock<kShape, Features, BlockTeam<kConfig.num_threads()>>;
  using Base::block, Base::features, Base::params;
  static constexpr int kThreads = kConfig.num_threads();
  static constexpr int kRowTiles = kShape.row_tiles;
  static constexpr int kGroups = kShape.groups;
  static constexpr int kSpans = kConfig.warp_keys() / 32;
  using QTile = SharedTile<kConfig.block_q, kConfig.padded_head_dim()>;
  using DoutTile = SharedTile<kConfig.block_q, kConfig.padded_head_dim_v()>;
  using KTile = SharedTile<kConfig.block_kv, kConfig.padded_head_dim()>;
  using VTile = SharedTile<kConfig.block_kv, kConfig.padded_head_dim_v()>;
  using Tile = Fragments<kRowTiles, kGroups>;
  using Base::kBlockKv, Base::kBlockQ;
  static constexpr int kQueryWarps = kConfig.query_warps;

  int warp;  // of the block

  ATTNJIT_DEVICE GradientScores(const BackwardParams& p, const Features& f)
      : Base(p, f), warp(ptx::warp_index()) {}

  ATTNJIT_DEVICE int query_warp() const { return warp / kConfig.key_warps(); }
  ATTNJIT_DEVICE int key_warp() const { return warp % kConfig.key_warps(); }
  // Whether the warp has a part of a tile of scores.
  ATTNJIT_DEVICE bool has_scores() const {
    return kConfig.score_warps() == kConfig.num_warps || warp < kConfig.score_warps();
  }
  // First row of the warp's part of a tile, and first key of a span.
  ATTNJIT_DEVICE int warp_row() const { return query_warp() * kConfig.warp_queries(); }
  ATTNJIT_DEVICE int span_key(int span) const {
    return key_warp() * kConfig.warp_keys() + 32 * span;
  }

  // Turns to a tile of queries.
  ATTNJIT_DEVICE void enter_tile(int q_tile) {
    this->set_rows(block, q_tile);
    block.thread_row =
        block.first_row + warp_row() + ScoreShape(kShape).lane_row(ptx::lane_index());
  }

  // Starts loading the rows of a tile of queries from `base`; dead ones, by the bits of `live`,
  // become zero: whatever is stored there must not meet a probability of 0.
  template <int kColumns, class Tile>
  ATTNJIT_DEVICE void load_queries(const Tile& tile, const void* base, const RowStrides& strides,
                                   int head, int q_tile, const LiveRows& live) const {
    const uint16* source = this->query_rows(static_cast<const uint16*>(base), strides, head) +
                           q_tile * kConfig.block_q * strides.row;
    load_live_rows<kConfig.aligned, kColumns, kThreads, kConfig.refreshes(Fresh::kThread)>(
        tile, source, strides.row, live);
  }
  // Starts loading the rows of a tile of keys; those outside `keys`, or which no query keeps, are
  // not read but zeroed.
  template <int kColumns, class Tile>
  ATTNJIT_DEVICE void load_keys(const Tile& tile, const void* base, const RowStrides& strides,
                                int kv_tile, const KeyRange& keys) {
    const int first = kv_tile * kConfig.block_kv;
    const uint16* source =
        this->key_rows(static_cast<const uint16*>(base), strides) + first * strides.row;
    load_tile<kConfig.aligned, kColumns, kThreads>(
        tile, [=](int row) { return source + row * strides.row; },
        [&](int row) {
          const int key = first + row;
          return key >= keys.begin && key < keys.end && features.reads_key(key);
        });
  }

  // The pipeline of all three kernels: load(slot, job) starts loading a job's tiles, one job ahead
  // where there are two buffers, and attend(job, slot) works on them. next() gives a job that does
  // not exist after the last.
  template <class Next, class Load, class Attend>
  ATTNJIT_DEVICE static void walk(Next next, Load load, Attend attend) {
    auto job = next();
    load(0, job);
    ptx::copy_async_commit();
    int slot = 0;
    while (job.exists()) {
      ptx::copy_async_wait<0>();
      ptx::block_sync();  // the tiles are there for all; all are done with the job before
      if constexpr (kConfig.num_stages == 2) {
        const auto ahead = next();
        load(slot ^ 1, ahead);
        ptx::copy_async_commit();
        attend(job, slot);
        slot ^= 1;
        job = ahead;
      } else {
        attend(job, 0);
        ptx::block_sync();  // all are done with the tiles that are loaded next
        job = next();
        load(0, job);
        ptx::copy_async_commit();
      }
    }
  }

  // Starts loading lse and delta of a tile of queries to `rows` in shared memory. Past their end, a
  // multiple of kRowBlock, rows are dead.
  ATTNJIT_DEVICE void load_rows(uint32 rows, int head, int q_tile) const {
    constexpr int kChunks = kConfig.block_q / 4;
    const auto [first_row, num_rows] = this->padded_rows_of(head);
#pragma unroll
    for (int first = 0; first < 2 * kChunks; first += kThreads) {
      const int i = first + ptx::thread_index();
      if (i >= 2 * kChunks) break;
      const bool is_lse = i < kChunks;
      const int row = q_tile * kConfig.block_q + i % kChunks * 4;
      const float* array = is_lse ? params.rows.lse : params.rows.delta;
      if (kConfig.block_q <= kRowBlock || row < num_rows) {
        ptx::copy_async_16(rows + 16 * i, array + first_row + row, true);
      } else {
        const uint32 none = ptx::as_bits(is_lse ? ptx::infinity() : 0.0f);
        ptx::store_shared_16(rows + 16 * i, {none, none, none, none});
      }
    }
  }
  // One of the two values of the thread's rows, from where load_rows() has put them.
  using RowNumbers = RowValues<kRowTiles>;
  ATTNJIT_DEVICE void read_rows(RowNumbers& values, uint32 rows) const {
    const uint32 first = rows + 4 * (warp_row() + ptx::lane_index() / 4);
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        values[m][h] = ptx::as_float(ptx::load_shared_4(first + 4 * (16 * m + 8 * h)));
      }
    }
  }
  ATTNJIT_DEVICE void read_lse(RowNumbers& lse, uint32 rows) const { read_rows(lse, rows); }
  ATTNJIT_DEVICE void read_delta(RowNumbers& delta, uint32 rows) const {
    read_rows(delta, rows + 4 * kConfig.block_q);
  }

  // The derivatives of a span's scores by scaled q k^T; where they are all 1 there is nothing to
  // keep.
  struct Ones {};
  using Slopes = TypeIf<Features::kTransforms, Tile, Ones>;
  ATTNJIT_DEVICE static void apply(const Slopes& slopes, Tile& ds) {
    if constexpr (Features::kTransforms) ds *= slopes;
  }

  // Scores of a span of the tile at hand, of which `use` is what the mask says, and their slopes.
  ATTNJIT_DEVICE void scores(Tile& p, Slopes& slopes, const QTile& q, const KTile& k, int kv_tile,
                             int span, TileUse use) {
    const int first_key = kv_tile * kConfig.block_kv + span_key(span);
    const TileUse band_use = features.use(block, first_key / 32);
    const TileUse tile_use = band_use < use ? band_use : use;
    features.fetch(block, first_key, tile_use);
    p = 0.0f;
    add_scores<kConfig.dtype, kConfig.padded_head_dim()>(p, q, warp_row(), k, span_key(span));
    float scale = kConfig.scale_first ? params.score_scale : 1.0f;
    if constexpr (Features::kTransforms) {
      p *= scale;
      scale = 1.0f;
      features.differentiate(p, slopes);
    }
    features.add(block, p, scale, first_key);
    if (tile_use == TileUse::kMasked) features.mask(block, p, first_key);
  }

  // P = exp(S - lse). A bias may be so large that lse has few digits left after the point: scores
  // that hold one are compared with lse before they are scaled to log2 units, as the forward's
  // formulas have it. Other scores save the instruction.
  ATTNJIT_DEVICE void exponentiate(Tile& p, const RowNumbers& lse) const {
    if constexpr (kConfig.scale_first) {
      p.for_each([&](float& score, int m, int, int e) {
        score = ptx::exp2_approx((score - lse[m][e / 2]) * kLog2E);
      });
    } else {
      float lse2[kRowTiles][2];
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
        for (int h = 0; h < 2; ++h) lse2[m][h] = lse[m][h] * kLog2E;
      }
      p.for_each([&](float& score, int m, int, int e) {
        score = ptx::exp2_approx(fmaf(score, params.exponent_scale, -lse2[m][e / 2]));
      });
    }
  }

  // dS of the span at hand, by scores as they are exponentiated. The sums of dP begin at -delta,
  // which saves its registers meanwhile.
  ATTNJIT_DEVICE void score_gradients(Tile& ds, const Tile& p, const RowNumbers& delta,
                                      const DoutTile& dout, const VTile& v, int span) const {
    ds.for_each([&](float& score, int m, int, int e) { score = -delta[m][e / 2]; });
    add_scores<kConfig.dtype, kConfig.padded_head_dim_v()>(ds, dout, warp_row(), v, span_key(span));
    ds *= p;
  }

  // The thread's eight neighbouring keys in row (m, h), as KeyOrder deals them out.
  ATTNJIT_DEVICE static ptx::Vector16 packed_keys(const Tile& scores, int m, int h) {
    ptx::Vector16 v;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float(&pair)[4] = scores[m][i];
      v.word[i] = ptx::pack<kConfig.dtype>(pair[2 * h], pair[2 * h + 1]);
    }
    return v;
  }
  // Rounds a span and writes it to shared memory, keys in their natural order.
  ATTNJIT_DEVICE void store_scores(const ScoreTile<kBlockQ, kBlockKv>& tile, const Tile& scores,
                                   int span) const {
    const int lane = ptx::lane_index();
    const auto target = cursor(tile, warp_row() + lane / 4, span_key(0) / 8 + (lane & 3));
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        ptx::store_shared_16(target.at(16 * m + 8 * h, 4 * span), packed_keys(scores, m, h));
      }
    }
  }
};

}  // namespace attnjit::kernel

// The kernel of dq alone, queries at rest: dq = scale dS K, with dS of backward_scores_mma.cuh.
// Nothing is added up by several thread blocks, so its results are the same bits every time.
//
// One thread block computes block_q rows of one query head and walks over the keys, tile by tile. A
// warp owns whole rows, so that its dS is an operand of dS K as it lies in registers.
//
// Shared memory: [ Q, at the end dQ | dO | num_stages times K and V | lse and delta ].
namespace attnjit::kernel {

template <BackwardConfig kConfig, class Features>
struct BackwardDq : QueryTileWalk<GradientScores<kConfig, Features>> {
  static_assert(kConfig.key_warps() == 1, "the kernel of dq needs query_warps == num_warps");
  using Base = QueryTileWalk<GradientScores<kConfig, Features>>;
  using Base::block, Base::end_tile, Base::features, Base::keys, Base::next_tile, Base::params;
  using typename Base::DoutTile, typename Base::Job, typename Base::KTile, typename Base::QTile,
      typename Base::Tile, typename Base::VTile;
  static constexpr int kColumnGroups = kConfig.padded_head_dim() / 8;

  Fragments<Base::kRowTiles, kColumnGroups> dq;

  ATTNJIT_DEVICE BackwardDq(const BackwardParams& p, const Features& f) : Base(p, f) {}

  ATTNJIT_DEVICE QTile q_tile() const { return {ptx::shared_base()}; }
  ATTNJIT_DEVICE DoutTile dout_tile() const { return {ptx::shared_base() + kConfig.q_bytes()}; }
  ATTNJIT_DEVICE uint32 stage(int slot) const {
    return ptx::shared_base() + kConfig.q_bytes() + kConfig.dout_bytes() +
           slot * (kConfig.k_bytes() + kConfig.v_bytes());
  }
  ATTNJIT_DEVICE KTile k_tile(int slot) const { return {stage(slot)}; }
  ATTNJIT_DEVICE VTile v_tile(int slot) const { return {stage(slot) + kConfig.k_bytes()}; }
  ATTNJIT_DEVICE uint32 rows() const { return stage(kConfig.num_stages); }

  ATTNJIT_DEVICE void load_keys_of(int slot, const Job& job) {
    if (!job.exists()) return;
    this->template load_keys<kConfig.head_dim>(k_tile(slot), params.k, params.k_strides, job.tile,
                                               keys);
    this->template load_keys<kConfig.head_dim_v>(v_tile(slot), params.v, params.v_strides, job.tile,
                                                 keys);
  }

  // dq += dS K over a span of keys. Score gradients are laid out as an operand already: two column
  // groups are the 16 columns of one A fragment, and K's rows are taken in the same order.
  ATTNJIT_DEVICE void add_dq(const Tile& ds, const KTile& k, int span) {
    const int lane = ptx::lane_index();
    const int key = KeyOrder::row(0, lane & 7) + 2 * (lane >> 3 & 1);
    const auto k_cursor = cursor(k, key, lane >> 4);
#pragma unroll
    for (int n = 0; n < Base::kGroups; n += 2) {
      ptx::FragmentA a[Base::kRowTiles];
#pragma unroll
      for (int m = 0; m < Base::kRowTiles; ++m) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float(&group)[4] = ds[m][n + i / 2];
          a[m].word[i] = ptx::pack<kConfig.dtype>(group[2 * (i & 1)], group[2 * (i & 1) + 1]);
        }
      }
#pragma unroll
      for (int column = 0; column < kColumnGroups; column += 2) {
        const ptx::FragmentBPair b =
            ptx::load_fragment_b_transposed(k_cursor.at(32 * span + KeyOrder::row(n, 0), column));
#pragma unroll
        for (int m = 0; m < Base::kRowTiles; ++m) {
          ptx::multiply_accumulate<kConfig.dtype>(dq[m][column], a[m], b.word[0]);
          ptx::multiply_accumulate<kConfig.dtype>(dq[m][column + 1], a[m], b.word[1]);
        }
      }
    }
  }

  ATTNJIT_DEVICE void attend(const Job& job, int slot) {
#pragma unroll
    for (int span = 0; span < Base::kSpans; ++span) {
      Tile p, ds;
      typename Base::Slopes slopes;
      typename Base::RowNumbers row;
      this->scores(p, slopes, q_tile(), k_tile(slot), job.tile, span, job.use);
      this->read_lse(row, rows());
      this->exponentiate(p, row);
      this->read_delta(row, rows());
      this->score_gradients(ds, p, row, dout_tile(), v_tile(slot), span);
      this->apply(slopes, ds);
      add_dq(ds, k_tile(slot), span);
    }
  }

  ATTNJIT_DEVICE void write() {
    ptx::copy_async_wait<0>();
    ptx::block_sync();  // all are done with Q, whose place dQ takes
    const int lane = ptx::lane_index();
#pragma unroll
    for (int m = 0; m < Base::kRowTiles; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int row = this->warp_row() + 16 * m + 8 * h + lane / 4;
#pragma unroll
        for (int n = 0; n < kColumnGroups; ++n) {
          ptx::store_shared_4(q_tile().address(row, n) + 4 * (lane & 3),
                              ptx::pack<kConfig.dtype>(dq[m][n][2 * h] * params.scale,
                                                       dq[m][n][2 * h + 1] * params.scale));
        }
      }
    }
    ptx::block_sync();  // dQ is complete
    uint16* const target =
        this->query_rows(static_cast<uint16*>(params.dq), params.dq_strides, block.head) +
        block.first_row * params.dq_strides.row;
    store_tile<kConfig.aligned, kConfig.head_dim, Base::kThreads>(
        q_tile(), [&](int row) { return target + row * params.dq_strides.row; },
        block.seqlen_q - block.first_row);
  }

  ATTNJIT_DEVICE void run() {
    this->locate();
    if (!this->has_queries()) return;
    this->enter_tile(this->q_tile_index);
    const LiveRows live = this->load_live(block.head, this->q_tile_index);
    if (!live.any()) end_tile = next_tile;
    this->template load_queries<kConfig.head_dim>(q_tile(), params.q, params.q_strides, block.head,
                                                  this->q_tile_index, live);
    this->template load_queries<kConfig.head_dim_v>(dout_tile(), params.dout, params.dout_strides,
                                                    block.head, this->q_tile_index, live);
    this->load_rows(rows(), block.head, this->q_tile_index);
    dq = 0.0f;
    this->walk([&] { return this->next_job(); },
               [&](int slot, const Job& job) { load_keys_of(slot, job); },
               [&](const Job& job, int slot) { attend(job, slot); });
    write();
  }
};

template <BackwardConfig kConfig, class... Features>
ATTNJIT_DEVICE void backward_dq(const BackwardParams& params, Features... features) {
  using Set = GradientFeatures<Features...>;
  BackwardDq<kConfig, Set>(params, Set(features...)).run();
}

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

// ---- attnjit/score/backward_mask.cuh

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

namespace attnjit::kernel {

// Drops keys in a backward by a boolean mask that mask_pack.cuh has packed to bits and classified:
// the bits lie in the order in which the kernel has its scores. Empty tiles are skipped, full ones
// run without mask code. kLate as for Bias.
template <ScoreShape kShape, Extent kExtent, bool kLate>
struct BackwardMask : Feature {
  static constexpr bool kPerPair = kExtent == Extent::kPerPair;
  static constexpr bool kPerHead = true, kPicksKeys = !kPerPair;
  static constexpr bool kByKeys = kPerPair && !kShape.queries_in_rows();
  using Bits = TypeIf<kShape.queries_in_rows(), RowBits<kShape, kExtent>,
                      TypeIf<kPerPair, ColumnBits<kShape>, KeyBits<kShape>>>;

  const PackedMaskParams& params;
  const uint64* const all_columns;
  const uint32* words = nullptr;        // by rows, of the head at hand
  const uint64* columns = nullptr;      // by keys, likewise
  const uint32* first_words = nullptr;  // by rows, of the first head that shares its kv head
  Bits bits;

  ATTNJIT_DEVICE explicit BackwardMask(const BackwardMaskParams& p)
      : params(p.packed), all_columns(p.columns) {}

  ATTNJIT_DEVICE void begin(const Block& block) {
    const int64 index = plane_of(block.batch, block.head);
    if constexpr (kByKeys) {
      columns = all_columns + index * params.num_q_tiles * params.padded_keys();
    } else {
      words = words_of(index);
    }
    if constexpr (!kPerPair) {
      first_words = words_of(plane_of(block.batch, block.head - block.head % kShape.gqa_ratio));
    }
  }
  // The use of a tile of block_q by block_kv, by the classes of its parts.
  ATTNJIT_DEVICE TileUse tile_use(int batch, int head, int q_tile, int kv_tile) const {
    constexpr int kQueries = kPerPair ? kShape.block_q : 1;
    return united_use<kQueries, kShape.block_kv>(
        params.classes + plane_of(batch, head) * params.classes_per_plane, params.num_q_tiles,
        params.num_kv_tiles, kPerPair ? q_tile * kShape.block_q : 0, kv_tile * kShape.block_kv);
  }
  // A key that no query of the kv head keeps is dropped here already, so that a NaN stored there
  // stays there.
  ATTNJIT_DEVICE bool reads_key(int key) const {
    if constexpr (kPerPair) return true;
    uint32 kept = 0;
    const auto* source = reinterpret_cast<const uint8*>(first_words) + packed_byte(key);
    for (int head = 0; head < kShape.gqa_ratio; head += params.heads_per_plane) {
      kept |= ptx::load_global(source) >> (key & 7);
      source += params.words_per_plane * 4;
    }
    return (kept & 1) != 0;
  }
  ATTNJIT_DEVICE void fetch(const Block& block, int first_key, TileUse tile_use) {
    if constexpr (!kLate) {
      if (tile_use == TileUse::kMasked) bits.read(*this, block, first_key);
    }
  }
  template <class S>
  ATTNJIT_DEVICE void mask(const Block& block, S& scores, int first_key) {
    if constexpr (kLate) bits.read(*this, block, first_key);
    bits.settle(block, first_key);
    for_each_score<kShape>(scores, [&](float& score, int line, int key) {
      if (bits.is_zero(line, key)) score = -ptx::infinity();
    });
  }

 private:
  ATTNJIT_DEVICE int64 plane_of(int batch, int head) const {
    return static_cast<int64>(batch) * params.planes_per_batch + head / params.heads_per_plane;
  }
  ATTNJIT_DEVICE const uint32* words_of(int64 index) const {
    return params.words + index * params.words_per_plane;
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

inline constexpr BackwardConfig kConfig{
    .dtype = DType::kFloat16,
    .head_dim = 96,
    .head_dim_v = 64,
    .gqa_ratio = 4,
    .aligned = true,
    .scale_first = true,
    .adds_dq = false,
    .block_q = 128,
    .block_kv = 32,
    .num_stages = 2,
    .num_warps = 8,
    .query_warps = 8,
    .min_blocks = 1,
    .late = false,
    .fresh = Fresh::kNone,
};
inline constexpr ScoreShape kScores = kConfig.scores();

extern "C" __global__ void __launch_bounds__(kConfig.num_threads(), kConfig.min_blocks)
attn_bwd_dq(
    const __grid_constant__ BackwardParams params,
    const __grid_constant__ OperandParams bias,
    const __grid_constant__ BackwardMaskParams mask,
    const __grid_constant__ BandParams band) {
  backward_dq<kConfig>(params,
    Bias<kScores, DType::kFloat32, Extent::kPerPair, true, kConfig.late>(bias),
    BackwardMask<kScores, Extent::kPerPair, kConfig.late>(mask),
    Band<kScores, false, true>(band));
}
