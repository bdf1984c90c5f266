// merge_lse bf16 to bf16 dv128

// ---- attnjit/merge_lse.cuh

// ---- attnjit/merge_lse_config.h

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

// Specialises the kernel that merges partial results of attention.
struct MergeLseConfig {
  static constexpr int kMaxColumns = 1 << 29;  // and a pass more are 32-bit numbers
  DType part_dtype;
  DType dtype;  // of out
  int head_dim_v;
  bool aligned;  // rows of all tensors start at multiples of 16 bytes and have whole pieces
  bool carry;    // whether an fp32 result is one part more

  ATTNJIT_CONSTEXPR int num_threads() const { return 256; }
  // Neighbouring threads that share a row, eight columns each; a power of two.
  ATTNJIT_CONSTEXPR int row_threads() const {
    int threads = 1;
    while (threads < num_threads() && 8 * threads < head_dim_v) threads *= 2;
    return threads;
  }
  // Columns that they take at once.
  ATTNJIT_CONSTEXPR int pass_columns() const { return 8 * row_threads(); }
  ATTNJIT_CONSTEXPR int block_rows() const { return num_threads() / row_threads(); }
};

// The rule that `config` breaks, or nullptr.
ATTNJIT_CONSTEXPR const char* why_invalid(const MergeLseConfig& config) {
  if (config.head_dim_v < 1 || config.head_dim_v > MergeLseConfig::kMaxColumns) {
    return "head_dim_v must be 1 to 2^29";
  }
  if (config.aligned && config.head_dim_v % 8 != 0) return "aligned rows have whole pieces of 8";
  return nullptr;
}

struct MergeLseParams {
  const void* parts;       // [part][batch, heads, rows, head_dim_v]
  const float* part_lses;  // [part][batch, heads, rows]
  const float* carry;      // [batch, heads, rows, head_dim_v]; may be `out`
  const float* carry_lse;  // [batch, heads, rows]; may be `lse`
  void* out;               // [batch, heads, rows, head_dim_v]
  float* lse;              // [batch, heads, rows] or null
  int64 part_stride;       // elements
  RowStrides part_strides, carry_strides, out_strides;
  int64 num_rows;  // batch * heads * seqlen_q
  int32 num_heads;
  int32 seqlen_q;
  int32 num_parts;
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

// ---- attnjit/tile/store_keys.cuh

namespace attnjit::kernel {

// The place of the lane's first four keys of row half `h` in a piece of 16 rows by 32 keys; the
// other four follow 128 floats later. The lane holds keys 8 (lane % 4) ... of rows lane / 4 and
// + 8.
ATTNJIT_DEVICE int bias_fragment_slot(int h) { return 256 * h + 4 * ptx::lane_index(); }

// Writes the first `keys` of eight neighbouring keys of a row, rounded to kDType, to element
// `first` of `data` and on. `kVectorized`: eight of them are contiguous and aligned to 16 bytes.
template <DType kDType, bool kVectorized>
ATTNJIT_DEVICE void store_keys(void* data, int64 first, const float (&v)[8], int keys,
                               int64 key_stride) {
  if constexpr (kDType == DType::kFloat32) {
    float* const target = static_cast<float*>(data) + first;
    if (kVectorized && keys >= 8) {
#pragma unroll
      for (int i = 0; i < 8; i += 4) {
        ptx::store_global(reinterpret_cast<ptx::Vector16*>(target + i),
                          ptx::Vector16{ptx::as_bits(v[i]), ptx::as_bits(v[i + 1]),
                                        ptx::as_bits(v[i + 2]), ptx::as_bits(v[i + 3])});
      }
      return;
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (i < keys) ptx::store_global(target + i * key_stride, v[i]);
    }
  } else {
    uint16* const target = static_cast<uint16*>(data) + first;
    ptx::Vector16 packed;
#pragma unroll
    for (int i = 0; i < 4; ++i) packed.word[i] = ptx::pack<kDType>(v[2 * i], v[2 * i + 1]);
    if (kVectorized && keys >= 8) {
      ptx::store_global(reinterpret_cast<ptx::Vector16*>(target), packed);
      return;
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (i < keys) {
        ptx::store_global(target + i * key_stride,
                          static_cast<uint16>(packed.word[i / 2] >> (16 * (i & 1))));
      }
    }
  }
}

}  // namespace attnjit::kernel

// Merges results that calls left for shares of the keys (part_weights.cuh). Each thread adds up
// eight columns of a row, and more of a row that is wider than a block. What a part holds in rows
// that it is dead in is not read.
namespace attnjit::kernel {

// Eight neighbouring elements of a row, `columns` of which exist. Another launch or, of a carry,
// this thread writes them.
template <DType kDType, bool kAligned>
ATTNJIT_DEVICE void load_piece(const void* data, int64 first, int columns, float (&v)[8]) {
  if constexpr (kDType == DType::kFloat32) {
    const float* const source = static_cast<const float*>(data) + first;
#pragma unroll
    for (int i = 0; i < 8; i += kAligned ? 4 : 1) {
      if constexpr (kAligned) {
        const auto four =
            ptx::load_global_written(reinterpret_cast<const ptx::Vector16*>(source + i));
#pragma unroll
        for (int j = 0; j < 4; ++j) v[i + j] = ptx::as_float(four.word[j]);
      } else {
        v[i] = i < columns ? ptx::load_global_written(source + i) : 0.0f;
      }
    }
  } else {
    const uint16* const source = static_cast<const uint16*>(data) + first;
    if constexpr (kAligned) {
      const auto eight = ptx::load_global(reinterpret_cast<const ptx::Vector16*>(source));
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        v[i] = ptx::widen<kDType>(static_cast<uint16>(eight.word[i / 2] >> (16 * (i & 1))));
      }
    } else {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        v[i] = i < columns ? ptx::widen<kDType>(ptx::load_global(source + i)) : 0.0f;
      }
    }
  }
}

template <MergeLseConfig kConfig>
struct MergeLse {
  static_assert(why_invalid(kConfig) == nullptr, "why_invalid(config) in merge_lse_config.h");

  const MergeLseParams& params;

  ATTNJIT_DEVICE void run() const {
    const int64 row = static_cast<int64>(ptx::block_index()) * kConfig.block_rows() +
                      ptx::thread_index() / kConfig.row_threads();
    const int first = 8 * (ptx::thread_index() % kConfig.row_threads());
    const bool exists = row < params.num_rows && first < kConfig.head_dim_v;
    const PartWeights weights(exists ? highest(row) : -ptx::infinity());
    const float total = exists ? merge(row, first, weights) : 0.0f;
    if constexpr (constexpr int kPass = kConfig.pass_columns(); kConfig.head_dim_v > kPass) {
#pragma unroll 1
      for (int c = first + kPass; exists && c < kConfig.head_dim_v; c += kPass) {
        merge(row, c, weights);
      }
    }
    ptx::block_sync();  // the lse of every row has been read, and the result may take its place
    if (exists && first == 0 && params.lse != nullptr) {
      ptx::store_global(params.lse + row, weights.lse(total));
    }
  }

 private:
  ATTNJIT_DEVICE int64 element(const RowStrides& strides, int64 row) const {
    const int64 plane = row / params.seqlen_q;
    return plane / params.num_heads * strides.batch + plane % params.num_heads * strides.head +
           row % params.seqlen_q * strides.row;
  }
  ATTNJIT_DEVICE float part_lse(int s, int64 row) const {
    return ptx::load_global_written(params.part_lses + s * params.num_rows + row);
  }
  ATTNJIT_DEVICE float highest(int64 row) const {
    float highest = -ptx::infinity();
    if constexpr (kConfig.carry) highest = ptx::load_global_written(params.carry_lse + row);
    for (int s = 0; s < params.num_parts; ++s) highest = fmaxf(highest, part_lse(s, row));
    return highest;
  }
  // Writes eight columns of out; returns the sum of the weights.
  ATTNJIT_DEVICE float merge(int64 row, int column, const PartWeights& weights) const {
    const int columns = kConfig.head_dim_v - column;
    float sum[8] = {};
    float total = 0.0f;
    if constexpr (kConfig.carry) {
      add<DType::kFloat32>(params.carry, element(params.carry_strides, row) + column, columns,
                           weights, ptx::load_global_written(params.carry_lse + row), sum, total);
    }
    const int64 first = element(params.part_strides, row) + column;
#pragma unroll 4
    for (int s = 0; s < params.num_parts; ++s) {
      add<kConfig.part_dtype>(params.parts, s * params.part_stride + first, columns, weights,
                              part_lse(s, row), sum, total);
    }
    const float inverse = weights.inverse(total);
#pragma unroll
    for (int i = 0; i < 8; ++i) sum[i] *= inverse;
    store_keys<kConfig.dtype, kConfig.aligned>(
        params.out, element(params.out_strides, row) + column, sum, columns, 1);
    return total;
  }
  template <DType kDType>
  ATTNJIT_DEVICE static void add(const void* data, int64 first, int columns,
                                 const PartWeights& weights, float lse, float (&sum)[8],
                                 float& total) {
    if (lse == -ptx::infinity()) return;
    const float weight = weights.weight(lse);
    float v[8];
    load_piece<kDType, kConfig.aligned>(data, first, columns, v);
    total += weight;
#pragma unroll
    for (int i = 0; i < 8; ++i) sum[i] = fmaf(weight, v[i], sum[i]);
  }
};

template <MergeLseConfig kConfig>
ATTNJIT_DEVICE void merge_lse(const MergeLseParams& params) {
  MergeLse<kConfig>{params}.run();
}

}  // namespace attnjit::kernel

using namespace attnjit::kernel;

inline constexpr MergeLseConfig kConfig{
    .part_dtype = DType::kBFloat16,
    .dtype = DType::kBFloat16,
    .head_dim_v = 128,
    .aligned = true,
    .carry = false,
};

extern "C" __global__ void __launch_bounds__(kConfig.num_threads())
merge_lse(
    const __grid_constant__ MergeLseParams params) {
  merge_lse<kConfig>(params);
}
