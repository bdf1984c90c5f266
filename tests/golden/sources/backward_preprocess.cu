// backward_preprocess fp16 dv64

// ---- attnjit/backward_preprocess.cuh

// ---- attnjit/backward_preprocess_config.h

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

// ---- attnjit/score/sink_params.h

namespace attnjit::kernel {

// A score per query head that has no key and no value.
struct SinkParams {
  const void* data;  // [num_heads_q]
  int64 head_stride;
};

// The least lse of a row with a live key: above the sink, if only by the last digits of a float. A
// row in use without one has the sink itself, which tells the backward that it is dead.
ATTNJIT_CONSTEXPR float least_live_lse(float sink) {
  return sink + (sink < 0.0f ? -sink : sink) * 0x1p-22f + 0x1p-60f;
}

}  // namespace attnjit::kernel

namespace attnjit::kernel {

// Specialises the kernel that prepares the rows of the backward.
struct BackwardPreprocessConfig {
  DType dtype;  // of out and dout
  int head_dim_v;
  bool aligned;    // rows of out and dout move in 16-byte pieces
  bool pieces;     // writes row_pieces
  int dq_columns;  // of dq, where that of dead rows is written here; else 0
  bool sink;       // heads have sinks
  DType sink_dtype;
  bool row_mask;  // a mask is the same for all keys of a row
  bool row_bias;  // so is a bias
  DType bias_dtype;
  bool packed;  // rows are those of packed sequences

  ATTNJIT_CONSTEXPR int num_threads() const { return 256; }
  // Lanes that share a row, eight columns each at a time.
  ATTNJIT_CONSTEXPR int row_lanes() const {
    int lanes = 1;
    while (lanes < 32 && lanes * 8 < head_dim_v) lanes *= 2;
    return lanes;
  }
};

struct BackwardPreprocessParams {
  const void* out;    // [batch, num_heads_q, seqlen_q, head_dim_v]
  const void* dout;   // likewise
  const float* lse;   // [batch, num_heads_q, seqlen_q]
  const float* dlse;  // likewise, or null
  GradientRows rows;  // of all planes; padded rows are written too, as dead ones
  SinkParams sink;
  Grouped<OperandParams> row_mask;
  int32 operand_queries;  // of mask and bias; rows of a packed sequence past them are dropped
  // [batch][query head][padded row], or null: what dS of a live row sums to, else 0; and what a row
  // adds to dsink.
  float *ds_rows, *dsink_rows;
  float* sums;       // memory to be set to zero, 16-byte aligned
  int64 sum_pieces;  // of 16 bytes
  RowStrides out_strides, dout_strides;
  int32 num_heads_q;
  int32 seqlen_q;
  int32 num_row_blocks;  // ceil(seqlen_q / kRowBlock), or the tiles of packed sequences
  int32 num_blocks;      // of the launch
  uint32* row_pieces;    // kRowPieceBytes a row, see backward_params.h
  float inverse_scale;   // 1 / scale of the scores; 0 where no piece is asked of lse
  PackedRows packed;
  void* dq;  // [batch, num_heads_q, seqlen_q, dq_columns], used where dq_columns > 0
  RowStrides dq_strides;
  Grouped<OperandParams> row_bias;
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

// ---- attnjit/ptx/reduce.cuh

namespace attnjit::kernel::ptx {

// The sum over groups of kLanes neighbouring lanes, a power of two; each lane receives its group's.
template <int kLanes>
ATTNJIT_DEVICE float lanes_sum(float value) {
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, distance);
  }
  return value;
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

// ---- attnjit/score/load_row_bias.cuh

namespace attnjit::kernel {

// The bias of a row where it is the same for all keys. `batch` is the number of a plane where batch
// elements share planes in groups.
template <DType kDType>
ATTNJIT_DEVICE float load_row_bias(const OperandParams& bias, int batch, int head, int query) {
  const int64 index = batch * bias.batch_stride + head / bias.heads_per_plane * bias.head_stride +
                      query * bias.query_stride;
  if constexpr (kDType == DType::kFloat32) {
    return ptx::load_global(static_cast<const float*>(bias.data) + index);
  } else {
    return ptx::widen<kDType>(ptx::load_global(static_cast<const uint16*>(bias.data) + index));
  }
}

}  // namespace attnjit::kernel

// ---- attnjit/score/load_row_mask.cuh

namespace attnjit::kernel {

// Whether a mask that is the same for all keys of a row keeps that row. `batch` is the number of a
// plane where batch elements share planes in groups.
ATTNJIT_DEVICE bool keeps_row(const OperandParams& mask, int batch, int head, int query) {
  return ptx::load_global(static_cast<const uint8*>(mask.data) + batch * mask.batch_stride +
                          head / mask.heads_per_plane * mask.head_stride +
                          query * mask.query_stride) != 0;
}

}  // namespace attnjit::kernel

// ---- attnjit/score/load_sink.cuh

namespace attnjit::kernel {

// The sink of a head; what counts as -inf is -inf, which is none.
template <DType kDType>
ATTNJIT_DEVICE float load_sink(const SinkParams& params, int head) {
  const int64 index = head * params.head_stride;
  float sink;
  if constexpr (kDType == DType::kFloat32) {
    sink = ptx::load_global(static_cast<const float*>(params.data) + index);
  } else {
    sink = ptx::widen<kDType>(ptx::load_global(static_cast<const uint16*>(params.data) + index));
  }
  return sink <= kDeadScore ? -ptx::infinity() : sink;
}

}  // namespace attnjit::kernel

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

// Prepares the rows of the backward, and sets to zero what later kernels add to:
//
//   delta = rowsum(dout out) - dlse      lse, but +inf for a dead row
//
// A row that a mask drops is dead whatever its lse is, which may be that of more keys than the call
// has: masks that are the same for all keys of a row are no other kernel's business. Neither are
// such biases: they shift a row's scores as they do its lse, from which they are taken off here.
// And it writes, for gradients of sinks and of these biases,
//
//   dsink = -exp(sink - lse) delta       rowsum(dS) = dlse - dsink
//
// One thread block takes kRowBlock rows of one query head, of one sequence where these are packed.
// No shared memory.
namespace attnjit::kernel {

template <BackwardPreprocessConfig kConfig>
struct BackwardPreprocess {
  static constexpr int kLanes = kConfig.row_lanes();
  static constexpr int kRowsAtOnce = kConfig.num_threads() / kLanes;

  const BackwardPreprocessParams& params;
  int shift;     // from a padded row to the tensors' row
  int end_row;   // of the tensors, that the thread block may have
  int sequence;  // of packed ones, and its first row in the tensors
  int begin_row;

  ATTNJIT_DEVICE explicit BackwardPreprocess(const BackwardPreprocessParams& p)
      : params(p), shift(0), end_row(p.seqlen_q), sequence(0), begin_row(0) {}

  ATTNJIT_DEVICE void run() {
    ptx::let_next_kernel_begin();
    clear_sums();
    if (params.num_row_blocks == 0) return;
    const int64 plane = ptx::block_index() / params.num_row_blocks;
    const int row_block = static_cast<int>(ptx::block_index() % params.num_row_blocks);
    const int first = row_block * kRowBlock;
    if constexpr (kConfig.packed) enter_sequence(row_block);
    if (ptx::thread_index() < kRowBlock) prepare_row(plane, first + ptx::thread_index());
    for (int r = ptx::thread_index() / kLanes; r < kRowBlock; r += kRowsAtOnce) {
      prepare_delta(plane, first + r);
    }
  }

 private:
  static constexpr float kNoProbability = -0x1p100f;

  ATTNJIT_DEVICE void enter_sequence(int row_block) {
    const PackedTile found = find_tile(params.packed, row_block, kRowBlock);
    const PackedRange rows = range_of(params.packed, found.sequence);
    shift = rows.begin + (found.tile - row_block) * kRowBlock;
    end_row = rows.begin + rows.size;
    sequence = found.sequence;
    begin_row = rows.begin;
  }

  ATTNJIT_DEVICE int64 padded_row(int64 plane, int row) const {
    return plane * params.num_row_blocks * kRowBlock + row;
  }
  ATTNJIT_DEVICE float lse_of(int64 plane, int row) const {
    return row + shift < end_row
               ? ptx::load_global(params.lse + plane * params.seqlen_q + row + shift)
               : -ptx::infinity();
  }
  ATTNJIT_DEVICE float dlse_of(int64 plane, int row) const {
    return params.dlse != nullptr
               ? ptx::load_global(params.dlse + plane * params.seqlen_q + row + shift)
               : 0.0f;
  }

  ATTNJIT_DEVICE void clear_sums() const {
    const int64 stride = static_cast<int64>(params.num_blocks) * kConfig.num_threads();
    auto* sums = reinterpret_cast<ptx::Vector16*>(params.sums);
    for (int64 i =
             static_cast<int64>(ptx::block_index()) * kConfig.num_threads() + ptx::thread_index();
         i < params.sum_pieces; i += stride) {
      ptx::store_global(sums + i, ptx::Vector16{});
    }
  }

  ATTNJIT_DEVICE float sink_of(int64 plane) const {
    if constexpr (!kConfig.sink) return -ptx::infinity();
    return load_sink<kConfig.sink_dtype>(params.sink, static_cast<int>(plane % params.num_heads_q));
  }
  // Whether a row with that lse has a live key. Those without one have the sink's, or are not in
  // use.
  ATTNJIT_DEVICE bool is_live(int64 plane, int row, float lse) const {
    const bool live = lse != -ptx::infinity() && lse != sink_of(plane);
    if (kConfig.row_bias && query_of(row) >= params.operand_queries) return false;
    return kConfig.row_mask ? live && keeps(plane, row) : live;
  }
  ATTNJIT_DEVICE bool keeps(int64 plane, int row) const {
    const int query = query_of(row);
    return query < params.operand_queries &&
           keeps_row(params.row_mask, batch_plane_of(params.row_mask, plane), head_of(plane),
                     query);
  }
  // The logarithm of the sum over a live row's keys without the bias that they share.
  ATTNJIT_DEVICE float unbiased(int64 plane, int row, float lse) const {
    if constexpr (!kConfig.row_bias) return lse;
    return lse - load_row_bias<kConfig.bias_dtype>(params.row_bias,
                                                   batch_plane_of(params.row_bias, plane),
                                                   head_of(plane), query_of(row));
  }
  // The plane over the batch that a mask or bias has for that of a batch element or sequence.
  ATTNJIT_DEVICE int batch_plane_of(const Grouped<OperandParams>& operand, int64 plane) const {
    const auto run =
        static_cast<uint32>(batch_of(plane)) / static_cast<uint32>(operand.batches_per_plane);
    return operand.cycle.plane_of(run);
  }
  // The batch element or sequence, the head, and the row of it, as masks and biases count them.
  ATTNJIT_DEVICE int batch_of(int64 plane) const {
    return kConfig.packed ? sequence : static_cast<int>(plane / params.num_heads_q);
  }
  ATTNJIT_DEVICE int head_of(int64 plane) const {
    return static_cast<int>(plane % params.num_heads_q);
  }
  ATTNJIT_DEVICE int query_of(int row) const { return row + shift - begin_row; }

  // One thread per row; whole warps take part.
  ATTNJIT_DEVICE void prepare_row(int64 plane, int row) const {
    const float lse = lse_of(plane, row);
    const bool live = is_live(plane, row, lse);
    const int64 index = padded_row(plane, row);
    ptx::store_global(params.rows.lse + index, live ? unbiased(plane, row, lse) : ptx::infinity());
    const uint32 word = ptx::warp_ballot(live);
    if (ptx::lane_index() == 0) ptx::store_global(params.rows.live + index / 32, word);
  }

  // kLanes neighbouring lanes per row; whole warps take part.
  ATTNJIT_DEVICE void prepare_delta(int64 plane, int row) const {
    const int lane = ptx::thread_index() % kLanes;
    const float lse = lse_of(plane, row);
    const bool live = is_live(plane, row, lse);
    float sum = 0.0f;
    if (live) {
      const auto* out =
          row_of(static_cast<const uint16*>(params.out), params.out_strides, plane, row);
      const auto* dout =
          row_of(static_cast<const uint16*>(params.dout), params.dout_strides, plane, row);
#pragma unroll
      for (int column = 0; column < kConfig.head_dim_v; column += 8 * kLanes) {
        sum += product(out, dout, column + 8 * lane);
      }
    }
    sum = ptx::lanes_sum<kLanes>(sum);
    if constexpr (kConfig.dq_columns > 0) {
      if (!live) clear_dq(plane, row, lane);
    }
    if (lane == 0) {
      const float delta = live ? sum - dlse_of(plane, row) : 0.0f;
      ptx::store_global(params.rows.delta + padded_row(plane, row), delta);
      if constexpr (kConfig.pieces) write_pieces(plane, row, live, delta);
      write_sums(plane, row, live, delta);
    }
  }
  // Writes the dq of a dead row: nobody else may meet it.
  ATTNJIT_DEVICE void clear_dq(int64 plane, int row, int lane) const {
    if (row + shift >= end_row) return;
    uint16* const dq = row_of(static_cast<uint16*>(params.dq), params.dq_strides, plane, row);
#pragma unroll
    for (int column = 8 * lane; column < kConfig.dq_columns; column += 8 * kLanes) {
      ptx::store_global(reinterpret_cast<ptx::Vector16*>(dq + column), ptx::Vector16{});
    }
  }
  ATTNJIT_DEVICE void write_sums(int64 plane, int row, bool live, float delta) const {
    const float lse = lse_of(plane, row);
    const float dlse = lse == -ptx::infinity() ? 0.0f : dlse_of(plane, row);
    float dsink = 0.0f;
    if constexpr (kConfig.sink) {
      const float sink = sink_of(plane);
      // The sink is all that a dead row in use has.
      if (sink != -ptx::infinity() && lse != -ptx::infinity()) {
        dsink = live ? -ptx::exp2_approx((sink - lse) * kLog2E) * delta : dlse;
      }
      if (params.dsink_rows != nullptr) {
        ptx::store_global(params.dsink_rows + padded_row(plane, row), dsink);
      }
    }
    if (params.ds_rows != nullptr) {
      ptx::store_global(params.ds_rows + padded_row(plane, row), live ? dlse - dsink : 0.0f);
    }
  }
  // A dead row, and one whose lse is +inf, gets a number that no score comes near but that 0 times
  // it is 0.
  ATTNJIT_DEVICE void write_pieces(int64 plane, int row, bool live, float delta) const {
    float lse = lse_of(plane, row);
    if (kConfig.row_bias && live) lse = unbiased(plane, row, lse);
    // No score comes near the largest sinks either, nor where a bias leaves that much or drops the
    // row, and a product with scale might overflow.
    const bool vanishes =
        !live || lse == ptx::infinity() || ((kConfig.sink || kConfig.row_bias) && lse > 0x1p36f);
    ptx::Vector16 v{};
    split(vanishes ? kNoProbability : -lse * params.inverse_scale, v, 0);
    split(-delta, v, 3);
    ptx::store_global(reinterpret_cast<ptx::Vector16*>(params.row_pieces) + padded_row(plane, row),
                      v);
  }
  // Three bf16 numbers that add up to `value`, from the one with index `first` on. An infinity and
  // NaN are the first of them.
  ATTNJIT_DEVICE static void split(float value, ptx::Vector16& v, int first) {
#pragma unroll
    for (int i = first; i < first + 3; ++i) {
      const uint32 bits = ptx::pack<DType::kBFloat16>(value, 0.0f);
      v.word[i / 2] |= bits << (16 * (i & 1));
      const float rest = value - ptx::widen<DType::kBFloat16>(static_cast<uint16>(bits));
      value = rest == rest ? rest : 0.0f;
    }
  }
  template <class T>
  ATTNJIT_DEVICE T* row_of(T* base, const RowStrides& strides, int64 plane, int row) const {
    return base + plane / params.num_heads_q * strides.batch +
           plane % params.num_heads_q * strides.head + (row + shift) * strides.row;
  }
  // Of eight columns from `column` on; those past the end count as 0.
  ATTNJIT_DEVICE float product(const uint16* out, const uint16* dout, int column) const {
    if (column >= kConfig.head_dim_v) return 0.0f;
    const ptx::Vector16 a = load_eight(out, column);
    const ptx::Vector16 b = load_eight(dout, column);
    const auto element = [](const ptx::Vector16& v, int i) {
      return ptx::widen<kConfig.dtype>(static_cast<uint16>(v.word[i / 2] >> (16 * (i & 1))));
    };
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < 8; ++i) sum = fmaf(element(a, i), element(b, i), sum);
    return sum;
  }
  ATTNJIT_DEVICE ptx::Vector16 load_eight(const uint16* row, int column) const {
    if constexpr (kConfig.aligned) {
      return ptx::load_global(reinterpret_cast<const ptx::Vector16*>(row + column));
    }
    return load_elements(row, column, kConfig.head_dim_v);
  }
};

template <BackwardPreprocessConfig kConfig>
ATTNJIT_DEVICE void backward_preprocess(const BackwardPreprocessParams& params) {
  BackwardPreprocess<kConfig>(params).run();
}

}  // namespace attnjit::kernel

using namespace attnjit::kernel;

inline constexpr BackwardPreprocessConfig kConfig{
    .dtype = DType::kFloat16,
    .head_dim_v = 64,
    .aligned = true,
    .pieces = false,
    .dq_columns = 0,
    .sink = false,
    .sink_dtype = DType::kFloat32,
    .row_mask = false,
    .row_bias = false,
    .bias_dtype = DType::kFloat16,
    .packed = false,
};

extern "C" __global__ void __launch_bounds__(kConfig.num_threads(), 1)
backward_preprocess(
    const __grid_constant__ BackwardPreprocessParams params) {
  backward_preprocess<kConfig>(params);
}
