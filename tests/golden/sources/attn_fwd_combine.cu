// attn_fwd_combine fp16 dv64 | w8

// ---- attnjit/forward_combine.cuh

// ---- attnjit/forward_combine_config.h

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

// Specialises the kernel that adds up the splits of the forward.
struct ForwardCombineConfig {
  DType dtype;  // of out
  int head_dim_v;
  int num_warps;
  bool row_max;  // whether the largest scores of rows are wanted

  ATTNJIT_CONSTEXPR int num_threads() const { return num_warps * 32; }
  ATTNJIT_CONSTEXPR int padded_head_dim_v() const { return round_up(head_dim_v, 16); }
  // Shared memory, in bytes: a sum of each warp.
  ATTNJIT_CONSTEXPR int shared_bytes() const { return num_warps * padded_head_dim_v() * 4; }
};

// The rule that `config` breaks, or nullptr.
ATTNJIT_CONSTEXPR const char* why_invalid(const ForwardCombineConfig& config) {
  if (config.dtype == DType::kFloat32) return "dtype must be fp16 or bf16";
  if (config.head_dim_v < 1 || config.head_dim_v > 256) return "head_dim_v must be 1 to 256";
  if (config.num_warps < 1 || config.num_warps > 16) return "num_warps must be 1 to 16";
  return nullptr;
}

struct ForwardCombineParams {
  const float* partial_out;  // [row][split][padded head_dim_v]; row = (batch, head, query)
  const float* partial_lse;  // [row][split]
  void* out;                 // [batch, num_heads_q, seqlen_q, head_dim_v]
  float* lse;                // [row] or null
  RowStrides out_strides;
  int32 num_heads_q;
  int32 seqlen_q;
  int32 num_splits;
  const float* partial_row_max;  // [row][split], where the config has row_max
  float* row_max;                // [row], likewise
};

}  // namespace attnjit::kernel

// ---- attnjit/part_weights.cuh

// ---- attnjit/ptx/device.cuh
// How device functions are declared. The CPU executor supplies its own version of this folder.
#define ATTNJIT_DEVICE __device__ __forceinline__

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

namespace attnjit::kernel {

// The arithmetic of adding up results of shares of the keys:
//
//   lse = log sum_s exp(lse_s)        out = sum_s exp(lse_s - lse) out_s
//
// Each weight() is relative to the highest lse_s; `total` is their sum.
struct PartWeights {
  bool dead;     // no part has a live key
  float origin;  // the highest lse_s, or 0 where that is -inf

  ATTNJIT_DEVICE explicit PartWeights(float highest)
      : dead(highest == -ptx::infinity()), origin(dead ? 0.0f : highest) {}

  ATTNJIT_DEVICE float weight(float lse) const { return ptx::exp2_approx((lse - origin) * kLog2E); }
  ATTNJIT_DEVICE float inverse(float total) const { return dead ? 0.0f : 1.0f / total; }
  ATTNJIT_DEVICE float lse(float total) const {
    return dead ? -ptx::infinity() : fmaf(ptx::log2_approx(total), kLn2, origin);
  }
};

}  // namespace attnjit::kernel

// ---- attnjit/ptx/exchange.cuh

namespace attnjit::kernel::ptx {

// The value of the lane whose index differs in the bits of `distance`.
ATTNJIT_DEVICE uint32 exchange(uint32 value, int distance) {
  return __shfl_xor_sync(0xffffffffu, value, distance);
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

// Adds up the splits of a forward whose keys were shared out over thread blocks (part_weights.cuh).
// One thread block computes one row. Groups of lanes sum every kGroups-th split, a lane four
// neighbouring columns at a time; then the sums of a warp's groups are added by shuffles, and those
// of the warps through shared memory. A row may have a thousand splits and be the only one, so what
// counts is how many reads are under way: those of kBatch splits per group at a time.
namespace attnjit::kernel {

template <ForwardCombineConfig kConfig>
struct ForwardCombine {
  static_assert(why_invalid(kConfig) == nullptr, "why_invalid(config) in forward_combine_config.h");
  static constexpr int kColumns = kConfig.padded_head_dim_v();
  static constexpr int kPieces = (kColumns + 127) / 128;  // of four columns that a lane holds
  static constexpr int kLanes = kColumns > 64   ? 32      // of a group
                                : kColumns > 32 ? 16
                                : kColumns > 16 ? 8
                                                : 4;
  static constexpr int kGroups = kConfig.num_threads() / kLanes;
  static constexpr int kBatch = kPieces == 1 ? 8 : 4;

  const ForwardCombineParams& params;

  // The shared element of a warp's sum.
  ATTNJIT_DEVICE static uint32 shared_sum(int warp, int column) {
    return ptx::shared_base() + (warp * kColumns + column) * 4;
  }

  // The largest of a number per split. Warps call it whole.
  ATTNJIT_DEVICE float largest(const float* numbers) const {
    float highest = -ptx::infinity();
#pragma unroll 8
    for (int s = ptx::lane_index(); s < params.num_splits; s += 32) {
      highest = fmaxf(highest, ptx::load_global_written(numbers + s));
    }
    return ptx::warp_max(highest);
  }

  ATTNJIT_DEVICE void run() const {
    const int64 row = ptx::block_index();
    const int lane = ptx::lane_index();
    const int warp = ptx::warp_index();
    ptx::wait_for_previous_kernel();  // which writes the splits
    const float* const lses = params.partial_lse + row * params.num_splits;

    // Every warp weighs all splits: cheaper than to wait for one that does.
    const PartWeights weights(largest(lses));
    float total = 0.0f;
#pragma unroll 8
    for (int s = lane; s < params.num_splits; s += 32) {
      total += weights.weight(ptx::load_global_written(lses + s));
    }
    total = ptx::warp_sum(total);

    float sum[kPieces][4] = {};
    const int group = ptx::thread_index() / kLanes;
    for (int first = group; first < params.num_splits; first += kBatch * kGroups) {
      add_batch(row, first, weights, sum);
    }
#pragma unroll
    for (int p = 0; p < kPieces; ++p) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int distance = kLanes; distance < 32; distance *= 2) {
          sum[p][i] += ptx::as_float(ptx::exchange(ptx::as_bits(sum[p][i]), distance));
        }
        const int column = 128 * p + 4 * lane + i;
        if (lane < kLanes && column < kColumns) {
          ptx::store_shared_4(shared_sum(warp, column), ptx::as_bits(sum[p][i]));
        }
      }
    }
    ptx::block_sync();  // the sums of all warps are there
    write(row, weights.inverse(total));
    if (params.lse != nullptr && ptx::thread_index() == 0) {
      ptx::store_global(params.lse + row, weights.lse(total));
    }
    if constexpr (kConfig.row_max) {
      if (warp != 0) return;
      const float highest = largest(params.partial_row_max + row * params.num_splits);
      if (lane == 0) ptx::store_global(params.row_max + row, highest);
    }
  }

 private:
  // Adds every kGroups-th split from `first` on, kBatch of them: all are read before one is used.
  // What lies past the last split or column is read as that one, and not added: with a condition on
  // a read ptxas 13.0 makes each wait for the one before.
  ATTNJIT_DEVICE void add_batch(int64 row, int first, const PartWeights& weights,
                                float (&sum)[kPieces][4]) const {
    const float* const lses = params.partial_lse + row * params.num_splits;
    const float* const partial = params.partial_out + row * params.num_splits * kColumns;
    const int last = params.num_splits - 1;
    const auto place = [&](int b) { return first + b * kGroups; };
    const auto read_place = [&](int b) { return place(b) < last ? place(b) : last; };
    float weight[kBatch];
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      weight[b] = weights.weight(ptx::load_global_written(lses + read_place(b)));
    }
    ptx::Vector16 parts[kBatch][kPieces];
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const float* const part = partial + static_cast<int64>(read_place(b)) * kColumns;
#pragma unroll
      for (int p = 0; p < kPieces; ++p) {
        const int column = 128 * p + 4 * (ptx::lane_index() % kLanes);
        parts[b][p] = ptx::load_global_written(reinterpret_cast<const ptx::Vector16*>(
            part + (column < kColumns ? column : kColumns - 4)));
      }
    }
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
#pragma unroll
      for (int p = 0; p < kPieces; ++p) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float term = weight[b] * ptx::as_float(parts[b][p].word[i]);
          sum[p][i] += place(b) <= last ? term : 0.0f;
        }
      }
    }
  }

  ATTNJIT_DEVICE void write(int64 row, float inverse) const {
    const int64 query = row % params.seqlen_q;
    const int64 plane = row / params.seqlen_q;
    uint16* const target =
        static_cast<uint16*>(params.out) + plane / params.num_heads_q * params.out_strides.batch +
        plane % params.num_heads_q * params.out_strides.head + query * params.out_strides.row;
    for (int column = ptx::thread_index(); column < kConfig.head_dim_v;
         column += kConfig.num_threads()) {
      float sum = 0.0f;
#pragma unroll
      for (int w = 0; w < kConfig.num_warps; ++w) {
        sum += ptx::as_float(ptx::load_shared_4(shared_sum(w, column)));
      }
      ptx::store_global(target + column,
                        static_cast<uint16>(ptx::pack<kConfig.dtype>(sum * inverse, 0.0f)));
    }
  }
};

template <ForwardCombineConfig kConfig>
ATTNJIT_DEVICE void forward_combine(const ForwardCombineParams& params) {
  ForwardCombine<kConfig>{params}.run();
}

}  // namespace attnjit::kernel

using namespace attnjit::kernel;

inline constexpr ForwardCombineConfig kConfig{
    .dtype = DType::kFloat16,
    .head_dim_v = 64,
    .num_warps = 8,
    .row_max = false,
};

extern "C" __global__ void __launch_bounds__(kConfig.num_threads())
attn_fwd_combine(
    const __grid_constant__ ForwardCombineParams params) {
  forward_combine<kConfig>(params);
}
