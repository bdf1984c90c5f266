// mask_pack qk

// ---- attnjit/mask_pack.cuh

// ---- attnjit/mask_pack_config.h

// ---- attnjit/score/packed_mask_params.h

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

// Words of 32 keys come in fours, 16 bytes, so that each row begins at a multiple of them.
inline constexpr int kPackedWords = 4;

// A boolean mask packed to bits, with a class for each tile of kMaskTile by kMaskTile; written by
// mask_pack.cuh.
struct PackedMaskParams {
  const uint32* words;   // [plane][row][words_per_row], bit j of word w is key 32 w + j
  const uint8* classes;  // [plane][q tile][kv tile], a TileUse each
  int64 words_per_plane;
  int64 classes_per_plane;
  int32 planes_per_batch;  // 0 if the mask is broadcast over the batch
  int32 heads_per_plane;
  int32 batches_per_plane;  // batch elements that share a plane, see batch_groups.cuh
  int32 words_per_row;      // a multiple of kPackedWords
  int32 num_q_tiles;        // 1 if all queries share the mask
  int32 num_kv_tiles;
};

// One that was prepared for a backward: where it varies over queries, with the bits by keys too.
struct PreparedMaskParams {
  PackedMaskParams packed;
  const uint32* key_words;  // [plane][key][words_per_key], bit i of word w is query 32 w + i
  int64 key_words_per_plane;
  int32 words_per_key;  // 2 for each tile of queries
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

// Specialises the mask prepass. The result is the same whichever kernel will read it.
struct MaskPackConfig {
  bool per_pair;    // the mask varies over queries as well as keys
  bool vectorized;  // 32 neighbouring keys are two aligned 16-byte loads
  bool by_keys;     // the bits are written by keys too, which needs per_pair

  // Rows of a tile and words of each, and the threads of a block, one for a word.
  ATTNJIT_CONSTEXPR int rows() const { return per_pair ? kMaskTile : 1; }
  static constexpr int kWords = kMaskTile / 32;
  ATTNJIT_CONSTEXPR int num_threads() const { return round_up(rows() * kWords, 32); }
};

// Run-time arguments of the prepass.
struct MaskPackParams {
  const uint8* mask;  // nonzero = keep
  uint32* words;      // [plane][row][words_per_row], bit j of word w is key 32 w + j
  uint8* classes;     // [plane][q tile][kv tile], a TileUse each, of kMaskTile by kMaskTile
  int64 batch_stride, head_stride, query_stride, key_stride;  // of the mask, in bytes
  int32 num_heads;  // of the mask: planes are (batch, head) pairs of its own axes
  int32 seqlen_q;   // rows of the mask; 1 unless per_pair
  int32 seqlen_kv;
  int32 words_per_row;  // a multiple of kPackedWords
  int32 num_q_tiles;
  int32 num_kv_tiles;   // those that a row's words make up: the last may lie past the keys
  uint32* key_words;    // [plane][key][words_per_key], bit i of word w is query 32 w + i; by_keys
  int32 words_per_key;  // 2 for each tile of queries
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
ATTNJIT_DEVICE Vector16 load_global_now(const Vector16* address) {
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
// Barrier of the whole block that also tells whether `value` holds for any / for all threads.
ATTNJIT_DEVICE bool block_any(bool value) { return __syncthreads_or(value) != 0; }
ATTNJIT_DEVICE bool block_all(bool value) { return __syncthreads_and(value) != 0; }

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

// ---- attnjit/tile/mask_tile.cuh

namespace attnjit::kernel {

// The tile of a boolean mask that a thread block looks at: the prepasses have one block per tile.
struct MaskTile {
  uint32 index;  // of [plane][q tile][kv tile]
  int q_tile, kv_tile;
  int64 plane;
  const uint8* mask;  // of the plane

  template <class Params>
  ATTNJIT_DEVICE explicit MaskTile(const Params& params) : index(ptx::block_index()) {
    kv_tile = static_cast<int>(index % params.num_kv_tiles);
    const uint32 rest = index / params.num_kv_tiles;
    q_tile = static_cast<int>(rest % params.num_q_tiles);
    plane = rest / params.num_q_tiles;
    mask = params.mask + plane / params.num_heads * params.batch_stride +
           plane % params.num_heads * params.head_stride;
  }

  // Writes what the tile needs: whether any and all of the keys that the thread has seen are kept.
  ATTNJIT_DEVICE void classify(uint8* classes, bool any, bool all) const {
    any = ptx::block_any(any);
    all = ptx::block_all(all);
    if (ptx::thread_index() == 0) {
      const TileUse use = !any ? TileUse::kSkip : all ? TileUse::kPlain : TileUse::kMasked;
      ptx::store_global(classes + index, static_cast<uint8>(use));
    }
  }
};

}  // namespace attnjit::kernel

// The mask prepass: packs a boolean mask to one bit per key, and tells of each tile of kMaskTile
// queries by kMaskTile keys whether all, some or none of its keys are kept.
//
//   mask    [batch or 1, heads, Lq or 1, Lk], one byte an element, any strides
//   words   [plane][row][words_per_row]        classes [plane][q tile][kv tile]
//
// On request the bits are written by keys as well, [plane][key][words_per_key], for kernels that
// have keys in the rows of their scores.
//
// A thread block has a tile, each thread a word of 32 keys. No shared memory.
namespace attnjit::kernel {

// Bit i of the result is byte i of `bytes` != 0.
ATTNJIT_DEVICE uint32 nonzero_bytes(uint32 bytes) {
  bytes |= bytes >> 4;
  bytes |= bytes >> 2;
  bytes |= bytes >> 1;
  // The low bits of four bytes, moved next to each other by one multiplication.
  return ((bytes & 0x01010101u) * 0x10204080u) >> 28;
}

template <MaskPackConfig kConfig>
struct MaskPack {
  static constexpr int kWords = kConfig.kWords;

  const MaskPackParams& params;

  // The 32 keys from `key` on of one mask row; keys past the end are 0.
  ATTNJIT_DEVICE uint32 pack(const uint8* row, int key) const {
    uint32 word = 0;
    if (kConfig.vectorized && key + 32 <= params.seqlen_kv) {
      const auto* source = reinterpret_cast<const ptx::Vector16*>(row + key);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const ptx::Vector16 v = ptx::load_global(source + i);
#pragma unroll
        for (int j = 0; j < 4; ++j) word |= nonzero_bytes(v.word[j]) << (16 * i + 4 * j);
      }
      return word;
    }
#pragma unroll 8
    for (int i = 0; i < 32; ++i) {
      if (key + i < params.seqlen_kv) {
        const uint8 keep = ptx::load_global(row + (key + i) * params.key_stride);
        word |= static_cast<uint32>(keep != 0) << i;
      }
    }
    return word;
  }

  // The word of a row that keeps every key from `key` on.
  ATTNJIT_DEVICE uint32 full_word(int key) const {
    const int valid = params.seqlen_kv - key;
    return valid >= 32 ? 0xffffffffu : valid <= 0 ? 0u : (1u << valid) - 1;
  }

  // Writes a word of each of 32 rows, which the lanes have, as one of each of its 32 keys.
  ATTNJIT_DEVICE void store_by_keys(int64 plane, int first_query, int first_key,
                                    uint32 word) const {
    uint32 of_key = 0;  // the lane's
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      const uint32 rows = ptx::warp_ballot((word >> i & 1) != 0);
      if (ptx::lane_index() == i) of_key = rows;
    }
    const int key = first_key + ptx::lane_index();
    if (key >= params.seqlen_kv) return;
    ptx::store_global(params.key_words + (plane * params.seqlen_kv + key) * params.words_per_key +
                          first_query / 32,
                      of_key);
  }

  ATTNJIT_DEVICE void run() const {
    ptx::let_next_kernel_begin();
    const MaskTile tile(params);
    const int thread = ptx::thread_index();
    // Neighbours have neighbouring words, but a warp a word of each of 32 rows to write them by
    // keys.
    const int row = kConfig.by_keys ? thread / (32 * kWords) * 32 + thread % 32 : thread / kWords;
    const int column = kConfig.by_keys ? thread / 32 % kWords : thread % kWords;
    const int query = tile.q_tile * kConfig.rows() + row;
    const int index = tile.kv_tile * kWords + column;
    bool any = false, all = true;
    uint32 word = 0;
    if (row < kConfig.rows() && query < params.seqlen_q) {
      word = pack(tile.mask + query * params.query_stride, 32 * index);
      any = word != 0;
      all = word == full_word(32 * index);
      ptx::store_global(
          params.words + (tile.plane * params.seqlen_q + query) * params.words_per_row + index,
          word);
    }
    if constexpr (kConfig.by_keys) {
      store_by_keys(tile.plane, query - ptx::lane_index(), 32 * index, word);
    }
    tile.classify(params.classes, any, all);
  }
};

template <MaskPackConfig kConfig>
ATTNJIT_DEVICE void mask_pack(const MaskPackParams& params) {
  MaskPack<kConfig>{params}.run();
}

}  // namespace attnjit::kernel

using namespace attnjit::kernel;

inline constexpr MaskPackConfig kConfig{
    .per_pair = true,
    .vectorized = true,
    .by_keys = false,
};

extern "C" __global__ void __launch_bounds__(kConfig.num_threads())
mask_pack(
    const __grid_constant__ MaskPackParams params) {
  mask_pack<kConfig>(params);
}
