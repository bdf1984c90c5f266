// bias_sum fp32

// ---- attnjit/bias_sum.cuh

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

// ---- attnjit/bias_sum_config.h

// ---- attnjit/packed_rows.h

namespace attnjit::kernel {

// Rows of sequences that lie one after another in a tensor without a batch axis.
struct PackedRows {
  const int32* begins;  // [num_sequences + 1]; sequence b has rows begins[b] ... begins[b + 1] - 1
  int32 num_sequences;
  int32 num_rows;  // of the tensor; those past begins[num_sequences] belong to no sequence
};

// A tile of a sequence's rows. One that begins past them has none.
struct PackedTile {
  int32 sequence, tile;
};

// Tiles of `size` rows begin anew in each sequence. They are numbered without a look at the other
// sequences: a sequence has numbers enough, for ceil(n / size) <= (begin + n) / size - begin / size
// + 1, and numbers that are left over have no rows. Rows that belong to no sequence follow as if
// they were one more.
ATTNJIT_CONSTEXPR int first_packed_tile(int begin, int sequence, int size) {
  return begin / size + sequence;
}
ATTNJIT_CONSTEXPR int num_packed_tiles(int num_rows, int num_sequences, int size) {
  return first_packed_tile(num_rows, num_sequences, size) + 1;
}

}  // namespace attnjit::kernel

// ---- attnjit/score/batch_groups_params.h

namespace attnjit::kernel {

// The planes over the batch of a mask, a bias or a dbias with fewer planes than there are batch
// elements. A run of `batches_per_plane` neighbouring elements shares a plane. Runs take `planes`
// planes by turns, and after `period` runs the next ones. Unsigned: divisions of signed numbers
// take more registers.
struct BatchCycle {
  uint32 planes, period;

  ATTNJIT_CONSTEXPR int plane_of(uint32 run) const {
    return static_cast<int>(run / period * planes + run % planes);
  }
  // Runs that share a plane, and where they are: the first of them, others follow `planes` later
  // each.
  ATTNJIT_CONSTEXPR int runs() const { return static_cast<int>(period / planes); }
  ATTNJIT_CONSTEXPR int first_run(uint32 plane) const {
    return static_cast<int>(plane / planes * period + plane % planes);
  }
};

// A kernel parameter with the cycle of its planes. Kernels of problems without groups take the
// base.
template <class Params>
struct Grouped : Params {
  BatchCycle cycle;
};

}  // namespace attnjit::kernel

namespace attnjit::kernel {

// Specialises the kernel that reduces parts of a bias gradient.
struct BiasSumConfig {
  DType dtype;  // of dbias
  DType parts;  // fp32; or 16 bits wide: planes of dS, whose rows of keys are aligned to 16 bytes
  bool vectorized;    // eight keys of dbias are contiguous and aligned to 16 bytes
  bool over_queries;  // the queries of the parts are summed too: a thread block per element
  bool packed;        // parts are rows of packed sequences, each of which is a batch element
  bool groups;        // batch elements share planes of dbias, which has several

  ATTNJIT_CONSTEXPR int num_threads() const { return 256; }
  ATTNJIT_CONSTEXPR bool sums_planes() const { return parts != DType::kFloat32; }
  // Neighbouring elements of a row of dbias that a thread block computes; of 16 rows of planes.
  ATTNJIT_CONSTEXPR int block_columns() const {
    return over_queries ? 1 : sums_planes() ? 128 : 4 * num_threads();
  }
  ATTNJIT_CONSTEXPR int shared_bytes() const { return over_queries ? num_threads() * 4 : 0; }
};

// An axis of dbias: its size, and how many neighbours on the axis of the parts each element sums.
struct BiasSumAxis {
  int32 size, parts;
  int64 part_stride;    // of the parts, elements
  int64 target_stride;  // of dbias, elements
};

// Where batch elements share planes in groups these are Grouped, and a plane has batch.parts
// neighbours in each of its runs.
struct BiasSumParams {
  const void* parts;
  void* target;
  // The last axis of dbias, keys or queries, is `column`; `row` is the one before, of size 1 where
  // `column` is the queries.
  BiasSumAxis batch, head, row, column;
  int32 num_column_blocks;  // ceil(column.size / block_columns)
  int32 fragments;    // 1: parts lie in pieces of 16 queries by 32 keys; a row is 16 queries, as
                      // it is of planes
  int32 num_queries;  // of dbias, where a row is several
  PackedRows packed;
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

// ---- attnjit/tile/packed_rows.cuh

namespace attnjit::kernel {

// The first row of a sequence. The caller's numbers are clamped to the tensor, and the first counts
// as 0. Sequence num_sequences has the rows that belong to none.
ATTNJIT_DEVICE int begin_of(const PackedRows& rows, int sequence) {
  if (sequence == 0) return 0;
  if (sequence > rows.num_sequences) return rows.num_rows;
  const int begin = ptx::load_global(rows.begins + sequence);
  return begin < 0 ? 0 : begin < rows.num_rows ? begin : rows.num_rows;
}

struct PackedRange {
  int begin, size;
};
ATTNJIT_DEVICE PackedRange range_of(const PackedRows& rows, int sequence) {
  const int begin = begin_of(rows, sequence), end = begin_of(rows, sequence + 1);
  return {begin, end > begin ? end - begin : 0};
}

// The tile of number `tile`, where tiles have `size` rows, kHeads of each query. Lanes look at a
// 32nd of the sequences each, and at a 32nd of what is left, so that their latencies are paid
// together.
template <int kHeads = 1>
ATTNJIT_DEVICE PackedTile find_tile(const PackedRows& rows, int tile, int size) {
  const auto first_tile = [&](int sequence) {
    return first_packed_tile(begin_of(rows, sequence) * kHeads, sequence, size);
  };
  const int lane = ptx::lane_index();
  int sequence = 0, count = rows.num_sequences + 1;
  while (count > 1) {
    const int step = (count + 31) / 32, mine = lane * step;
    const bool begun = mine < count && first_tile(sequence + mine) <= tile;
    const int passed = ptx::count_bits(ptx::warp_ballot(begun));
    const int skipped = passed > 0 ? (passed - 1) * step : 0;
    sequence += skipped;
    count = count - skipped < step ? count - skipped : step;
  }
  // Numbers that the caller must not give may leave no sequence that has begun.
  const int within = tile - first_tile(sequence);
  return {sequence, within > 0 ? within : 0};
}

}  // namespace attnjit::kernel

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

// The last step to dbias: sums parts over the batch elements and heads that are still to be
// reduced, in fp32 and a fixed order, and rounds. Parts are dS that were added up already (nothing
// left to reduce), planes of dS in 16 bits, its column sums, or dlse, which is what the rows of dS
// sum to.
namespace attnjit::kernel {

template <BiasSumConfig kConfig, class Params>
struct BiasSum {
  const Params& params;

  // Elements of the parts from a run of a plane to the next.
  ATTNJIT_DEVICE int64 run_stride() const {
    return static_cast<int64>(params.cycle.planes) * params.batch.parts * params.batch.part_stride;
  }

  // The sum over batch elements and heads of the part at `part`, of the first run.
  ATTNJIT_DEVICE float sum(const float* part) const {
    if constexpr (kConfig.groups) {
      float total = 0.0f;
      for (int r = 0; r < params.cycle.runs(); ++r) total += sum_run(part + r * run_stride());
      return total;
    } else {
      return sum_run(part);
    }
  }
  ATTNJIT_DEVICE float sum_run(const float* part) const {
    float total = 0.0f;
    for (int b = 0; b < params.batch.parts; ++b, part += params.batch.part_stride) {
      add_heads(total, part);
    }
    return total;
  }
  // Adds the part at `part` and those of the heads after it.
  ATTNJIT_DEVICE void add_heads(float& total, const float* part) const {
    for (int h = 0; h < params.head.parts; ++h, part += params.head.part_stride) {
      total += ptx::load_global_written(part);
    }
  }
  // The sum over the sequences that share a plane, whose first run has the number `run`, and over
  // heads of which `part` is the first: of every `step`-th row of a sequence from `query` on.
  ATTNJIT_DEVICE float sum_packed(const float* part, int64 run, int64 query, int step) const {
    if constexpr (kConfig.groups) {
      float total = 0.0f;
      for (int r = 0; r < params.cycle.runs(); ++r) {
        total += sum_packed_run(part, run + r * params.cycle.planes, query, step);
      }
      return total;
    } else {
      return sum_packed_run(part, run, query, step);
    }
  }
  ATTNJIT_DEVICE float sum_packed_run(const float* part, int64 run, int64 query, int step) const {
    float total = 0.0f;
    for (int b = 0; b < params.batch.parts; ++b) {
      const int sequence = static_cast<int>(run * params.batch.parts + b);
      const PackedRange rows = range_of(params.packed, sequence);
      const float* const first =
          part + first_packed_tile(rows.begin, sequence, kRowBlock) * kRowBlock;
      for (int64 row = query; row < rows.size; row += step) add_heads(total, first + row);
    }
    return total;
  }
  ATTNJIT_DEVICE void store(int64 target, float value) const {
    if constexpr (kConfig.dtype == DType::kFloat32) {
      ptx::store_global(static_cast<float*>(params.target) + target, value);
    } else {
      ptx::store_global(static_cast<uint16*>(params.target) + target,
                        static_cast<uint16>(ptx::pack<kConfig.dtype>(value, 0.0f)));
    }
  }
  // The sum of all threads' values, on thread 0.
  ATTNJIT_DEVICE float block_sum(float value) const {
    const uint32 slots = ptx::shared_base();
    ptx::store_shared_4(slots + 4 * ptx::thread_index(), ptx::as_bits(value));
    ptx::block_sync();  // the values are there
    float total = 0.0f;
    if (ptx::thread_index() == 0) {
      for (int i = 0; i < kConfig.num_threads(); ++i) {
        total += ptx::as_float(ptx::load_shared_4(slots + 4 * i));
      }
    }
    return total;
  }

  // Rounds the block's pieces of 16 queries by 32 keys, of which `part` is the row's first. Pieces
  // may reach past dbias.
  ATTNJIT_DEVICE void copy_fragments(const float* part, int64 target, int64 row, int block) const {
    const int lane = ptx::lane_index();
    const int first_key = block * kConfig.block_columns() + 8 * (lane & 3);
    const int64 query_stride = params.row.target_stride / 16;
    for (int piece = ptx::warp_index(); piece < kConfig.block_columns() / 32;
         piece += kConfig.num_threads() / 32) {
      const int key = first_key + 32 * piece;
      if (key >= params.column.size) continue;
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        if (16 * row + lane / 4 + 8 * h >= params.num_queries) continue;
        float v[8];
#pragma unroll
        for (int i = 0; i < 8; i += 4) {
          const ptx::Vector16 four =
              ptx::load_global_written(reinterpret_cast<const ptx::Vector16*>(
                  part + static_cast<int64>(key & ~31) * 16 + bias_fragment_slot(h) + 32 * i));
#pragma unroll
          for (int j = 0; j < 4; ++j) v[i + j] = ptx::as_float(four.word[j]);
        }
        store_keys<kConfig.dtype, kConfig.vectorized>(
            params.target,
            target + (lane / 4 + 8 * h) * query_stride + key * params.column.target_stride, v,
            params.column.size - key, params.column.target_stride);
      }
    }
  }

  // Adds up 16 rows of planes of dS, eight keys of a row by a thread: 16 lanes have 128 keys.
  ATTNJIT_DEVICE void sum_planes(const uint16* part, int64 target, int64 row, int block) const {
    const int lane = ptx::lane_index();
    const int query = 2 * ptx::warp_index() + lane / 16;
    const int key = block * kConfig.block_columns() + 8 * (lane & 15);
    if (16 * row + query >= params.num_queries || key >= params.column.size) return;
    part += query * (params.row.part_stride / 16) + key;
    float total[8] = {};
    add_planes(total, part);
    if constexpr (kConfig.groups) {
      for (int r = 1; r < params.cycle.runs(); ++r) add_planes(total, part + r * run_stride());
    }
    store_keys<kConfig.dtype, kConfig.vectorized>(
        params.target,
        target + query * (params.row.target_stride / 16) + key * params.column.target_stride, total,
        params.column.size - key, params.column.target_stride);
  }
  // Those of a run of batch elements and of heads.
  ATTNJIT_DEVICE void add_planes(float (&total)[8], const uint16* part) const {
    const int heads = params.head.parts, planes = params.batch.parts * heads;
#pragma unroll 4
    for (int i = 0; i < planes; ++i) {
      add_eight(total,
                part + i / heads * params.batch.part_stride + i % heads * params.head.part_stride);
    }
  }
  ATTNJIT_DEVICE static void add_eight(float (&total)[8], const uint16* part) {
    const ptx::Vector16 keys =
        ptx::load_global_written(reinterpret_cast<const ptx::Vector16*>(part));
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const auto bits = static_cast<uint16>(keys.word[i / 2] >> (16 * (i & 1)));
      total[i] += ptx::widen<kConfig.parts>(bits);
    }
  }

  ATTNJIT_DEVICE void run() const {
    const int block = static_cast<int>(ptx::block_index() % params.num_column_blocks);
    int64 rest = ptx::block_index() / params.num_column_blocks;
    const int64 row = rest % params.row.size;
    rest /= params.row.size;
    const int64 head = rest % params.head.size;
    const int64 batch = rest / params.head.size;
    int64 run = batch;  // of neighbouring batch elements: the first that shares the plane
    if constexpr (kConfig.groups) run = params.cycle.first_run(static_cast<uint32>(batch));
    const int64 first = run * params.batch.parts * params.batch.part_stride +
                        head * params.head.parts * params.head.part_stride +
                        row * params.row.part_stride;
    const int64 target = batch * params.batch.target_stride + head * params.head.target_stride +
                         row * params.row.target_stride;
    if constexpr (kConfig.sums_planes()) {
      sum_planes(static_cast<const uint16*>(params.parts) + first, target, row, block);
      return;
    }
    const float* const part = static_cast<const float*>(params.parts) + first;
    if (params.fragments != 0) {
      copy_fragments(part, target, row, block);
    } else if constexpr (kConfig.over_queries) {
      float total = 0.0f;
      if constexpr (kConfig.packed) {
        total = sum_packed(part, run, ptx::thread_index(), kConfig.num_threads());
      } else {
        for (int q = ptx::thread_index(); q < params.column.parts; q += kConfig.num_threads()) {
          total += sum(part + q * params.column.part_stride);
        }
      }
      total = block_sum(total);
      if (ptx::thread_index() == 0) store(target, total);
    } else {
#pragma unroll
      for (int i = 0; i < kConfig.block_columns(); i += kConfig.num_threads()) {
        const int64 column = block * kConfig.block_columns() + i + ptx::thread_index();
        if (column >= params.column.size) continue;
        store(target + column * params.column.target_stride,
              kConfig.packed ? sum_packed(part, run, column, params.packed.num_rows)
                             : sum(part + column * params.column.part_stride));
      }
    }
  }
};

template <BiasSumConfig kConfig, class Params>
ATTNJIT_DEVICE void bias_sum(const Params& params) {
  BiasSum<kConfig, Params>{params}.run();
}

}  // namespace attnjit::kernel

using namespace attnjit::kernel;

inline constexpr BiasSumConfig kConfig{
    .dtype = DType::kFloat32,
    .parts = DType::kFloat32,
    .vectorized = true,
    .over_queries = false,
    .packed = false,
    .groups = false,
};

extern "C" __global__ void __launch_bounds__(kConfig.num_threads(), 1)
bias_sum(
    const __grid_constant__ BiasSumParams params) {
  bias_sum<kConfig>(params);
}
