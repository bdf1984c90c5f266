// mask_to_bits 1k

// ---- attnjit/prepass/mask_to_bits.cuh

// ---- attnjit/prepass/clear_count.cuh

// ---- attnjit/prepass/clear_count_config.h

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

// Specialises the kernel that sets a counter to 0.
struct ClearCountConfig {
  int num_warps;

  ATTNJIT_CONSTEXPR int num_threads() const { return 32 * num_warps; }
  ATTNJIT_CONSTEXPR int shared_bytes() const { return 0; }
};

struct ClearCountParams {
  uint32* count;
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
// Four neighbours from a multiple of 16 bytes on. Equal reads become one, for the compiler knows
// what they are.
struct alignas(16) Quad {
  int32 word[4];
};
ATTNJIT_DEVICE Quad load_quad(const int32* address) {
  const int4 v = __ldg(reinterpret_cast<const int4*>(address));
  return {{v.x, v.y, v.z, v.w}};
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
ATTNJIT_DEVICE void store_shared_8(uint32 address, Vector8 v) {
  asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(address), "r"(v.word[0]), "r"(v.word[1])
               : "memory");
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

namespace attnjit::kernel {

// Sets to 0 the counter from which thread blocks of a kernel to come take their work. Without
// one it does nothing.
ATTNJIT_DEVICE void clear_count(uint32* count) {
  if (count != nullptr && ptx::block_index() == 0 && ptx::thread_index() == 0) {
    ptx::store_global(count, uint32{0});
  }
}

// The kernel that does it where no other prepass comes before.
template <ClearCountConfig kConfig>
ATTNJIT_DEVICE void clear_count(const ClearCountParams& params) {
  ptx::let_next_kernel_begin();
  clear_count(params.count);
}

}  // namespace attnjit::kernel

// ---- attnjit/prepass/mask_to_bits_config.h

// ---- attnjit/score/bit_mask_params.h

namespace attnjit::kernel {

// Bits by rows. A row's keys come in groups of kMaskGroupKeys, kMaskGroupWords words each, so that
// a row begins at a multiple of 16 bytes. Word t of a group has keys 8 t to 8 t + 7 of each 32,
// which are those of a thread in KeyOrder: bit 8 s + i is key 32 s + 8 t + i of the group.
inline constexpr int kMaskGroupWords = 4, kMaskGroupKeys = 32 * kMaskGroupWords;

// The byte of a row that has a key, as bit key % 8.
ATTNJIT_INLINE_CONSTEXPR int mask_byte(int key) {
  return key / kMaskGroupKeys * 4 * kMaskGroupWords + key % 32 / 8 * 4 + key % kMaskGroupKeys / 32;
}

// Bits by keys. A column has the queries of a tile of kMaskTile for one key, 64 bits. Quarter t of
// it has queries 2 t and 2 t + 1 of each 8, which are those of a lane with keys in the rows of its
// scores: bit 16 t + 2 j + i is query 8 j + 2 t + i of the tile.

// A boolean mask as bits, with a class for each tile of kMaskTile by kMaskTile; written by
// prepass/mask_to_bits.cuh.
struct BitMaskParams {
  const uint32* words;   // [plane][row][words_per_row]
  const uint8* classes;  // [plane][q tile][kv tile], a TileUse each
  int64 words_per_plane;
  int64 classes_per_plane;
  int32 planes_per_batch;  // 0 if the mask is broadcast over the batch
  int32 heads_per_plane;
  int32 batches_per_plane;  // batch elements that share a plane, see batch_groups.cuh
  int32 words_per_row;      // a multiple of kMaskGroupWords
  int32 num_q_tiles;        // 1 if all queries share the mask
  int32 num_kv_tiles;

  // The keys of a row's words.
  ATTNJIT_CONSTEXPR int padded_keys() const { return 32 * words_per_row; }
};

// A mask for a backward: if it varies over queries, with the bits by keys too. Either pointer may
// be null if no kernel of the call reads it.
struct BackwardMaskParams {
  BitMaskParams bits;
  const uint64* columns;  // [plane][q tile][padded key]
};

}  // namespace attnjit::kernel

// ---- attnjit/tile/tile_use.h

namespace attnjit::kernel {

// The work that a tile of scores needs.
enum class TileUse : int { kSkip = 0, kMasked = 1, kPlain = 2 };

// Queries, or keys, of a mask tile with a class, a TileUse, independent of the tiles of the kernels
// that read it.
inline constexpr int kMaskTile = 64;

}  // namespace attnjit::kernel

namespace attnjit::kernel {

// Specialises the mask prepass. What it writes is the same whichever kernel will read it.
struct MaskToBitsConfig {
  bool per_pair;    // the mask varies over queries as well as keys
  bool vectorized;  // 16 neighbouring keys are an aligned 16-byte load
  bool by_rows;     // the bits are written by rows, see bit_mask_params.h
  bool by_keys;     // they are written by keys, which needs per_pair

  // A thread block converts rows() queries by kKeys keys; a warp classifies a tile of these at a
  // time.
  static constexpr int kKeys = 512, kWords = kKeys / 32;
  ATTNJIT_CONSTEXPR int rows() const { return per_pair ? kMaskTile : 1; }
  ATTNJIT_CONSTEXPR int num_threads() const { return per_pair ? 256 : 32; }

  // Shared memory: [row][kWords], one more word a row, so that the words of a column lie in
  // different banks.
  static constexpr int kRowBytes = 4 * (kWords + 1);
  ATTNJIT_CONSTEXPR int shared_bytes() const { return rows() * kRowBytes; }
};

// Run-time arguments of the prepass.
struct MaskToBitsParams {
  const uint8* mask;  // nonzero = keep
  uint32* words;      // [plane][row][words_per_row], if the config has by_rows
  uint64* columns;    // [plane][q tile][32 words_per_row], if it has by_keys
  uint8* classes;     // [plane][q tile][kv tile], a TileUse each, of kMaskTile by kMaskTile
  int64 batch_stride, head_stride, query_stride, key_stride;  // of the mask, in bytes
  int32 num_heads;  // of the mask: planes are (batch, head) pairs of its own axes
  int32 seqlen_q;   // rows of the mask; 1 unless per_pair
  int32 seqlen_kv;
  int32 words_per_row;  // a multiple of kMaskGroupWords
  int32 num_q_tiles;
  int32 num_kv_tiles;    // those that a row's words make up: the last may lie past the keys
  int32 num_key_blocks;  // of MaskToBitsConfig::kKeys
  uint32* work_taken;    // to be cleared; may be nullptr
};

}  // namespace attnjit::kernel

// ---- attnjit/tile/bit_matrix.cuh

// ---- attnjit/ptx/permute.cuh

namespace attnjit::kernel::ptx {

// Byte i of the result is the byte of `low` (0 to 3) or `high` (4 to 7) that hexadecimal digit i of
// `digits` names.
ATTNJIT_DEVICE uint32 permute_bytes(uint32 low, uint32 high, uint32 digits) {
  return __byte_perm(low, high, digits);
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

namespace attnjit::kernel {

// The transpose of a matrix of 32 by 32 bits: bit i of lane j's word becomes bit j of lane i's.
// Five steps exchange blocks of 16, 8, 4, 2 and 1 bits (H. S. Warren, Hacker's Delight, 7-3). Warps
// call it whole.
ATTNJIT_DEVICE uint32 transpose_bits(uint32 word) {
  const int lane = ptx::lane_index();
  uint32 low = 0x0000ffffu;  // bits whose number has no `block`
#pragma unroll
  for (int block = 16; block > 0; block /= 2) {
    const uint32 other = ptx::warp_broadcast(word, lane ^ block);
    word = (lane & block) == 0 ? (word & low) | (other & low) << block
                               : (word & ~low) | (other >> block & low);
    low ^= low << (block / 2);
  }
  return word;
}

// Byte s of word t becomes byte t of word s.
ATTNJIT_DEVICE ptx::Vector16 transpose_bytes(const uint32 (&word)[4]) {
  constexpr uint32 kLowPairs = 0x5140, kHighPairs = 0x7362;  // bytes 0 and 1 of both, 2 and 3
  constexpr uint32 kLowHalves = 0x5410, kHighHalves = 0x7632;
  const uint32 low[2] = {ptx::permute_bytes(word[0], word[1], kLowPairs),
                         ptx::permute_bytes(word[2], word[3], kLowPairs)};
  const uint32 high[2] = {ptx::permute_bytes(word[0], word[1], kHighPairs),
                          ptx::permute_bytes(word[2], word[3], kHighPairs)};
  return {{ptx::permute_bytes(low[0], low[1], kLowHalves),
           ptx::permute_bytes(low[0], low[1], kHighHalves),
           ptx::permute_bytes(high[0], high[1], kLowHalves),
           ptx::permute_bytes(high[0], high[1], kHighHalves)}};
}

// Pairs of bits as a matrix of 4 by 4: pair t of byte j becomes pair j of byte t.
ATTNJIT_DEVICE uint32 transpose_pairs(uint32 word) {
  const uint32 single =
      (word ^ word >> 6) & 0x00cc00ccu;  // differences of pairs that change places
  word ^= single ^ single << 6;
  const uint32 blocks = (word ^ word >> 12) & 0x0000f0f0u;  // the same of blocks of 2 by 2
  return word ^ blocks ^ blocks << 12;
}

// A column of a mask in the order of bit_mask_params.h: pair t of each eight bits, in quarter t.
ATTNJIT_DEVICE ptx::Vector8 quarters_of(const uint32 (&column)[2]) {
  const uint32 low = transpose_pairs(column[0]), high = transpose_pairs(column[1]);
  return {{ptx::permute_bytes(low, high, 0x5140), ptx::permute_bytes(low, high, 0x7362)}};
}

}  // namespace attnjit::kernel

// The mask prepass: converts a boolean mask to one bit per element, and tells of each tile of
// kMaskTile queries by kMaskTile keys whether all, some or none of its keys are kept.
//
//   mask     [batch or 1, heads, Lq or 1, Lk], one byte an element, any strides
//   words    [plane][row][words_per_row], for kernels that have queries in the rows of their scores
//   columns  [plane][q tile][key], for kernels that have keys in the rows of their scores
//   classes  [plane][q tile][kv tile]
//
// bit_mask_params.h tells the order of the bits. Keys past the mask are 0 in all of them, and so
// are queries past it in the columns.
//
// A thread block has a tile of queries and MaskToBitsConfig::kKeys keys. A thread reads 16 keys at
// a time, its neighbour the next 16 of the row; the bits go to shared memory, where a lane then
// finds the words of a row:
//
//     bytes --> bits, in shared memory --> words, by rows
//                                      --> classes and, transposed in registers, columns
namespace attnjit::kernel {

// Bit i of the result is byte i of `bytes` != 0.
ATTNJIT_DEVICE uint32 nonzero_bytes(uint32 bytes) {
  bytes |= bytes >> 4;
  bytes |= bytes >> 2;
  bytes |= bytes >> 1;
  // The low bits of four bytes, moved next to each other by one multiplication.
  return ((bytes & 0x01010101u) * 0x10204080u) >> 28;
}

template <MaskToBitsConfig kConfig>
struct MaskToBits {
  static constexpr int kRows = kConfig.rows();
  static constexpr int kThreads = kConfig.num_threads();
  static constexpr int kChunkKeys = 16;  // that a thread reads at a time
  static constexpr int kChunks = kConfig.kKeys / kChunkKeys;
  // Chunks that a thread reads.
  static constexpr int kReads = kRows * kChunks / kThreads;

  const MaskToBitsParams& params;
  int q_tile, first_word, num_words;  // of the thread block
  int64 plane;
  const uint8* mask;  // of the plane

  ATTNJIT_DEVICE explicit MaskToBits(const MaskToBitsParams& p) : params(p) {
    const uint32 index = ptx::block_index();
    const uint32 rest = index / params.num_key_blocks;
    first_word = static_cast<int>(index % params.num_key_blocks) * kConfig.kWords;
    const int words = params.words_per_row - first_word;
    num_words = words < kConfig.kWords ? words : kConfig.kWords;
    q_tile = static_cast<int>(rest % params.num_q_tiles);
    plane = rest / params.num_q_tiles;
    mask = params.mask + plane / params.num_heads * params.batch_stride +
           plane % params.num_heads * params.head_stride;
  }

  ATTNJIT_DEVICE void run() const {
    ptx::let_next_kernel_begin();
    clear_count(params.work_taken);
    convert();
    ptx::block_sync();  // the words of all rows are there
    if constexpr (kConfig.by_rows) store_words();
    const int warp = ptx::thread_index() / 32;
    for (int tile = warp; tile < num_words / 2; tile += kThreads / 32) finish_tile(tile);
  }

 private:
  // A query of the mask, by its row in the block.
  ATTNJIT_DEVICE int query_of(int row) const { return q_tile * kRows + row; }
  ATTNJIT_DEVICE bool has_row(int row) const {
    return row < kRows && query_of(row) < params.seqlen_q;
  }
  // Of a word in shared memory.
  ATTNJIT_DEVICE static uint32 address_of(int row, int word) {
    return ptx::shared_base() + row * kConfig.kRowBytes + 4 * word;
  }

  // The coordinates of a chunk in the block. A block of few keys has fewer chunks in a row, so that
  // its threads have as many rows more.
  struct Chunk {
    int row, index;
  };
  ATTNJIT_DEVICE Chunk chunk_of(int read) const {
    const int number = ptx::thread_index() + read * kThreads;
    const int shift = num_words <= 4 ? 3 : num_words <= 8 ? 4 : 5;
    return {number >> shift, number & ((1 << shift) - 1)};
  }

  ATTNJIT_DEVICE void convert() const {
    if constexpr (kConfig.vectorized) {
      // All reads are on their way before the first is waited for.
      ptx::Vector16 bytes[kReads];
#pragma unroll
      for (int i = 0; i < kReads; ++i) {
        const Chunk chunk = chunk_of(i);
        const int key = first_key_of(chunk);
        bytes[i] = {};
        if (has_row(chunk.row) && key + kChunkKeys <= params.seqlen_kv) {
          bytes[i] = ptx::load_global(reinterpret_cast<const ptx::Vector16*>(row_of(chunk) + key));
        }
      }
#pragma unroll
      for (int i = 0; i < kReads; ++i) {
        const Chunk chunk = chunk_of(i);
        uint32 bits = 0;
#pragma unroll
        for (int j = 0; j < 4; ++j) bits |= nonzero_bytes(bytes[i].word[j]) << (4 * j);
        if (first_key_of(chunk) + kChunkKeys > params.seqlen_kv) bits = read_elements(chunk);
        put(chunk, bits);
      }
    } else {
#pragma unroll 1
      for (int i = 0; i < kReads; ++i) put(chunk_of(i), read_elements(chunk_of(i)));
    }
  }
  ATTNJIT_DEVICE int first_key_of(const Chunk& chunk) const {
    return 32 * first_word + kChunkKeys * chunk.index;
  }
  ATTNJIT_DEVICE const uint8* row_of(const Chunk& chunk) const {
    return mask + query_of(chunk.row) * params.query_stride;
  }
  // The bits of a chunk, read one by one; those past the mask are 0.
  ATTNJIT_DEVICE uint32 read_elements(const Chunk& chunk) const {
    uint32 bits = 0;
    if (!has_row(chunk.row)) return bits;
    const int key = first_key_of(chunk);
    const uint8* const row = row_of(chunk);
#pragma unroll
    for (int i = 0; i < kChunkKeys; ++i) {
      if (key + i < params.seqlen_kv) {
        const uint8 keep = ptx::load_global(row + (key + i) * params.key_stride);
        bits |= static_cast<uint32>(keep != 0) << i;
      }
    }
    return bits;
  }
  // Puts a chunk into its word, which two neighbours make up. Warps call it whole.
  ATTNJIT_DEVICE void put(const Chunk& chunk, uint32 bits) const {
    const uint32 of_neighbour = ptx::warp_broadcast(bits, ptx::lane_index() ^ 1);
    if (chunk.row >= kRows || chunk.index % 2 != 0) return;
    ptx::store_shared_4(address_of(chunk.row, chunk.index / 2), bits | of_neighbour << kChunkKeys);
  }

  // Writes the words by rows, a group of keys at a time.
  ATTNJIT_DEVICE void store_words() const {
    constexpr int kQuads = kConfig.kWords / kMaskGroupWords;
    for (int i = ptx::thread_index(); i < kRows * kQuads; i += kThreads) {
      const int row = i / kQuads, word = i % kQuads * kMaskGroupWords;
      if (!has_row(row) || word >= num_words) continue;
      uint32 words[kMaskGroupWords];
#pragma unroll
      for (int j = 0; j < kMaskGroupWords; ++j) {
        words[j] = ptx::load_shared_4(address_of(row, word + j));
      }
      uint32* const target = params.words +
                             (plane * params.seqlen_q + query_of(row)) * params.words_per_row +
                             first_word + word;
      ptx::store_global(reinterpret_cast<ptx::Vector16*>(target), transpose_bytes(words));
    }
  }

  // Classifies tile `tile` of the block's and writes its columns, by a warp.
  ATTNJIT_DEVICE void finish_tile(int tile) const {
    const int lane = ptx::lane_index();
    bool any = false, all = true;
    uint32 column[2][2];  // of key `lane` of each word: 32 queries each
#pragma unroll
    for (int w = 0; w < 2; ++w) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = 32 * half + lane;
        const uint32 word = row < kRows ? ptx::load_shared_4(address_of(row, 2 * tile + w)) : 0u;
        any |= word != 0;
        all &= !has_row(row) || word == full_word(first_word + 2 * tile + w);
        if constexpr (kConfig.by_keys) column[w][half] = transpose_bits(word);
      }
    }
    any = ptx::warp_ballot(any) != 0;
    all = ptx::warp_all(all);
    const int64 q_tiles = plane * params.num_q_tiles + q_tile;
    const int kv_tile = first_word / 2 + tile;
    if (lane == 0) {
      const TileUse use = !any ? TileUse::kSkip : all ? TileUse::kPlain : TileUse::kMasked;
      ptx::store_global(params.classes + q_tiles * params.num_kv_tiles + kv_tile,
                        static_cast<uint8>(use));
    }
    if constexpr (kConfig.by_keys) {
      auto* const columns = reinterpret_cast<ptx::Vector8*>(
          params.columns + q_tiles * 32 * params.words_per_row + kMaskTile * kv_tile + lane);
#pragma unroll
      for (int w = 0; w < 2; ++w) ptx::store_global(columns + 32 * w, quarters_of(column[w]));
    }
  }
  // A word of a row that keeps every key.
  ATTNJIT_DEVICE uint32 full_word(int word) const {
    const int valid = params.seqlen_kv - 32 * word;
    return valid >= 32 ? 0xffffffffu : valid <= 0 ? 0u : (1u << valid) - 1;
  }
};

template <MaskToBitsConfig kConfig>
ATTNJIT_DEVICE void mask_to_bits(const MaskToBitsParams& params) {
  MaskToBits<kConfig>(params).run();
}

}  // namespace attnjit::kernel

using namespace attnjit::kernel;

inline constexpr MaskToBitsConfig kConfig{
    .per_pair = false,
    .vectorized = true,
    .by_rows = true,
    .by_keys = false,
};

extern "C" __global__ void __launch_bounds__(kConfig.num_threads())
mask_to_bits(
    const __grid_constant__ MaskToBitsParams params) {
  mask_to_bits<kConfig>(params);
}
