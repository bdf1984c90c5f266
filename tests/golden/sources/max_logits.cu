// max_logits | w16

// ---- attnjit/max_logits.cuh

// ---- attnjit/max_logits_config.h

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

// Specialises the kernel that reduces the largest scores of rows to those of heads.
struct MaxLogitsConfig {
  int num_warps;

  ATTNJIT_CONSTEXPR int num_threads() const { return num_warps * 32; }
  // Shared memory, in bytes: a maximum of each warp.
  ATTNJIT_CONSTEXPR int shared_bytes() const { return num_warps * 4; }
};

// The rule that `config` breaks, or nullptr.
ATTNJIT_CONSTEXPR const char* why_invalid(const MaxLogitsConfig& config) {
  if (config.num_warps < 1 || config.num_warps > 32) return "num_warps must be 1 to 32";
  return nullptr;
}

struct MaxLogitsParams {
  const float* row_max;  // [batch, num_heads_q, seqlen_q]
  float* max_logits;     // [num_heads_q]
  int32 batch;           // 0 where there is no row
  int32 num_heads_q;
  int32 seqlen_q;  // 1 or more
};

}  // namespace attnjit::kernel

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

// The largest score of each head, out of those of its rows. One thread block computes a head; a
// maximum has no order to keep.
namespace attnjit::kernel {

template <MaxLogitsConfig kConfig>
struct MaxLogits {
  static_assert(why_invalid(kConfig) == nullptr, "why_invalid(config) in max_logits_config.h");

  const MaxLogitsParams& params;

  ATTNJIT_DEVICE static uint32 shared_max(int warp) { return ptx::shared_base() + 4 * warp; }

  // The largest of every num_threads()-th row of the head, over all batch elements.
  ATTNJIT_DEVICE float thread_max(int head) const {
    const int batch_step = kConfig.num_threads() / params.seqlen_q;
    const int query_step = kConfig.num_threads() % params.seqlen_q;
    int batch = ptx::thread_index() / params.seqlen_q;
    int query = ptx::thread_index() % params.seqlen_q;
    float highest = -ptx::infinity();
#pragma unroll 4
    while (batch < params.batch) {
      const int64 plane = static_cast<int64>(batch) * params.num_heads_q + head;
      highest = fmaxf(highest,
                      ptx::load_global_written(params.row_max + plane * params.seqlen_q + query));
      batch += batch_step;
      query += query_step;
      if (query >= params.seqlen_q) {
        query -= params.seqlen_q;
        ++batch;
      }
    }
    return highest;
  }

  ATTNJIT_DEVICE void run() const {
    const int head = static_cast<int>(ptx::block_index());
    const int lane = ptx::lane_index();
    const int warp = ptx::warp_index();
    ptx::wait_for_previous_kernel();  // which writes the rows
    const float of_warp = ptx::warp_max(thread_max(head));
    if (lane == 0) ptx::store_shared_4(shared_max(warp), ptx::as_bits(of_warp));
    ptx::block_sync();  // the maxima of all warps are there
    if (warp != 0) return;
    const bool exists = lane < kConfig.num_warps;
    const float highest = ptx::warp_max(exists ? ptx::as_float(ptx::load_shared_4(shared_max(lane)))
                                               : -ptx::infinity());
    if (lane == 0) ptx::store_global(params.max_logits + head, highest);
  }
};

template <MaxLogitsConfig kConfig>
ATTNJIT_DEVICE void max_logits(const MaxLogitsParams& params) {
  MaxLogits<kConfig>{params}.run();
}

}  // namespace attnjit::kernel

using namespace attnjit::kernel;

inline constexpr MaxLogitsConfig kConfig{
    .num_warps = 16,
};

extern "C" __global__ void __launch_bounds__(kConfig.num_threads())
max_logits(
    const __grid_constant__ MaxLogitsParams params) {
  max_logits<kConfig>(params);
}
