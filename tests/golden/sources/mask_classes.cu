// mask_classes qk

// ---- attnjit/mask_classes.cuh

// ---- attnjit/mask_classes_config.h

// ---- attnjit/tile/tile_use.h

namespace attnjit::kernel {

// The work that a tile of scores needs.
enum class TileUse : int { kSkip = 0, kMasked = 1, kPlain = 2 };

// Queries, or keys, of the tiles of a mask that are classified: a TileUse each, whatever the tiles
// of the kernels that read it.
inline constexpr int kMaskTile = 64;

}  // namespace attnjit::kernel

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

// Specialises the kernel that classifies the tiles of a mask.
struct MaskClassesConfig {
  bool per_pair;    // the mask varies over queries as well as keys
  bool vectorized;  // 16 neighbouring keys are an aligned 16-byte load

  // Rows and keys of a tile, and the threads of a block, one for 16 keys of a row.
  ATTNJIT_CONSTEXPR int rows() const { return per_pair ? kMaskTile : 1; }
  ATTNJIT_CONSTEXPR int num_threads() const { return 256; }
};

struct MaskClassesParams {
  const uint8* mask;  // [batch or 1, heads, Lq or 1, Lk], one byte an element, nonzero = keep
  uint8* classes;     // [plane][q tile][kv tile], a TileUse each
  int64 batch_stride, head_stride, query_stride, key_stride;  // of the mask, in bytes
  int32 num_heads;  // of the mask: planes are (batch, head) pairs of its own axes
  int32 seqlen_q;   // rows of the mask; 1 unless per_pair
  int32 seqlen_kv;
  int32 num_q_tiles, num_kv_tiles;
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

// The mask prepass of the backward: tells of each tile of kMaskTile queries by kMaskTile keys
// whether all, some or none of its keys are kept.
namespace attnjit::kernel {

template <MaskClassesConfig kConfig>
struct MaskClasses {
  static constexpr int kPieces = kMaskTile / 16;  // of 16 keys in a row of the tile

  const MaskClassesParams& params;

  // Looks at the 16 keys from `key` on of one row.
  ATTNJIT_DEVICE void look(const uint8* row, int key, bool& any, bool& all) const {
    if (kConfig.vectorized && key + 16 <= params.seqlen_kv) {
      const ptx::Vector16 v = ptx::load_global(reinterpret_cast<const ptx::Vector16*>(row + key));
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        any |= v.word[i] != 0;
        // Whether a byte is zero: the borrow of subtracting 1 reaches its high bit.
        all &= ((v.word[i] - 0x01010101u) & ~v.word[i] & 0x80808080u) == 0;
      }
      return;
    }
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      if (key + i >= params.seqlen_kv) continue;
      const bool keep = ptx::load_global(row + (key + i) * params.key_stride) != 0;
      any |= keep;
      all &= keep;
    }
  }

  ATTNJIT_DEVICE void run() const {
    const MaskTile tile(params);
    bool any = false, all = true;
    for (int i = ptx::thread_index(); i < kConfig.rows() * kPieces; i += kConfig.num_threads()) {
      const int query = tile.q_tile * kConfig.rows() + i / kPieces;
      const int key = tile.kv_tile * kMaskTile + i % kPieces * 16;
      if (query >= params.seqlen_q) continue;
      look(tile.mask + query * params.query_stride, key, any, all);
    }
    tile.classify(params.classes, any, all);
  }
};

template <MaskClassesConfig kConfig>
ATTNJIT_DEVICE void mask_classes(const MaskClassesParams& params) {
  MaskClasses<kConfig>{params}.run();
}

}  // namespace attnjit::kernel

using namespace attnjit::kernel;

inline constexpr MaskClassesConfig kConfig{
    .per_pair = true,
    .vectorized = true,
};

extern "C" __global__ void __launch_bounds__(kConfig.num_threads(), 1)
mask_classes(
    const __grid_constant__ MaskClassesParams params) {
  mask_classes<kConfig>(params);
}
