// packed_order q128 heads1

// ---- attnjit/packed_order.cuh

// ---- attnjit/packed_order_config.h

// ---- attnjit/packed_costs.h

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

// Of a band over packed sequences, what tells blocks of rows that cost much from those that cost
// little.
struct PackedCosts {
  int32 rising;        // rows see the more keys the later they come
  int32 bottom_right;  // the end of their diagonal is that of the sequence
  int32 ahead;         // keys by which it lies further right
  int32 widest;        // keys that a row sees at most
};

// The cost of block of rows `block` of a sequence, in as many keys as it has queries, `unit`.
// Lengths in use and masks aside, which move costs, not blocks.
ATTNJIT_INLINE_CONSTEXPR int packed_cost(const PackedCosts& costs, int queries, int keys, int unit,
                                         int block) {
  const int seen = keys < costs.widest + unit ? keys : costs.widest + unit;
  const int most = ceil_div(seen, unit);
  if (costs.rising == 0) return most;
  const int diagonal = costs.ahead + (costs.bottom_right != 0 ? keys - queries : 0);
  const int cost = block + 1 + diagonal / unit;
  return cost < 0 ? 0 : cost < most ? cost : most;
}

// Costs by size: each of those up to 63 has a bucket of its own, and each 32nd of those between two
// powers of two above.
inline constexpr int kCostBuckets = 1024;  // enough for every cost of 32 bits
ATTNJIT_INLINE_CONSTEXPR int cost_bucket(int cost) {
  int halvings = 0;
  while (cost >> halvings >= 64) ++halvings;
  return 32 * halvings + (cost >> halvings);
}
// The time of a block of rows of a bucket at least, in that of as many keys: the start of one takes
// about half of it.
ATTNJIT_INLINE_CONSTEXPR float bucket_time(int bucket) {
  const int halvings = bucket < 64 ? 0 : bucket / 32 - 1;
  const auto leading = static_cast<uint32>(bucket - 32 * halvings);
  return static_cast<float>(leading << halvings) + 0.5f;
}

}  // namespace attnjit::kernel

// ---- attnjit/packed_work.h

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

namespace attnjit::kernel {

// The blocks of rows of packed sequences, which thread blocks that stay on their SMs take one after
// another. It lies in the workspace: packed_order.cuh writes it, and the forward counts.
struct PackedWork {
  PackedTile* tiles;  // all with rows, the costliest first; behind them one without, nobody's
  uint32* counts;

  static constexpr int kTaken = 0;    // of counts: positions of packed_position() that are taken
  static constexpr int kTiles = 1;    // blocks of rows that have rows
  static constexpr int kSection = 2;  // planes of a section
  static constexpr int kCounts = 3;
};

// A block of rows of a plane: rank among the tiles of PackedWork.
struct PackedPosition {
  uint32 rank, plane;
};

// Number `position` of the blocks of rows of all planes. Planes go by sections, whose keys stay in
// L2 while all of their blocks of rows are worked on, and those of a section take turns.
ATTNJIT_INLINE_CONSTEXPR PackedPosition packed_position(uint32 position, uint32 num_tiles,
                                                        uint32 section_planes) {
  const uint32 section = position / (num_tiles * section_planes);
  const uint32 within = position - section * num_tiles * section_planes;
  const uint32 rank = within / section_planes;
  return {rank, section * section_planes + within - rank * section_planes};
}

// Sections of equal size, `most` at most. `rounds` is the time of all blocks of rows over that of
// the costliest one, of a thread block: a section that takes less time than its costliest block of
// rows would end in that one alone.
ATTNJIT_INLINE_CONSTEXPR int packed_sections(int most, int kv_heads, float rounds) {
  int sections = rounds < static_cast<float>(most) ? static_cast<int>(rounds) : most;
  while (sections > 1 && kv_heads % sections != 0) --sections;
  return sections > 1 ? sections : 1;
}

}  // namespace attnjit::kernel

namespace attnjit::kernel {

// Specialises the kernel that orders the blocks of rows of packed sequences.
struct PackedOrderConfig {
  int block_q;       // rows of a block
  int packed_heads;  // rows of a query
  bool paged_keys;   // sequences have keys in pages

  ATTNJIT_CONSTEXPR int num_threads() const { return 1024; }
  // Sequences whose begins lie in shared memory; of more, every n-th.
  static constexpr int kSamples = 4096;
  // Shared memory, in bytes: [counts of buckets][three totals of each warp][begins].
  ATTNJIT_CONSTEXPR int totals_offset() const { return 4 * kCostBuckets; }
  ATTNJIT_CONSTEXPR int begins_offset() const { return totals_offset() + num_threads() / 32 * 12; }
  ATTNJIT_CONSTEXPR int shared_bytes() const { return begins_offset() + 4 * kSamples; }
};

// The rule that `config` breaks, or nullptr.
ATTNJIT_CONSTEXPR const char* why_invalid(const PackedOrderConfig& config) {
  if (config.packed_heads < 1) return "packed_heads must be at least 1";
  if (config.block_q < 1 || config.block_q % config.packed_heads != 0)
    return "block_q must be a multiple of packed_heads";
  return nullptr;
}

struct PackedOrderParams {
  PackedRows q, kv;
  const int32* used_kv;  // keys in use of each sequence, where these are paged
  PackedCosts costs;
  PackedWork work;   // room for a tile more than num_packed_tiles()
  int32 num_planes;  // heads, or kv heads where they are packed
  int32 num_kv_heads;
  int32 most_sections;  // a divisor of num_kv_heads
  int32 num_blocks;     // thread blocks that share out the work
};

}  // namespace attnjit::kernel

// ---- attnjit/ptx/count.cuh

// ---- attnjit/ptx/device.cuh
// How device functions are declared. The CPU executor supplies its own version of this folder.
#define ATTNJIT_DEVICE __device__ __forceinline__

// Counts in global memory by which thread blocks take turns or share out work, and in shared
// memory.
namespace attnjit::kernel::ptx {

// Whether `*address` is `count`. What those did who counted, before they did, is then visible.
ATTNJIT_DEVICE bool has_count(const uint32* address, uint32 count) {
  uint32 value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
  return value == count;
}
// Waits until it is.
ATTNJIT_DEVICE void await_count(const uint32* address, uint32 count) {
  while (!has_count(address, count)) {
  }
}

// Counts on, by predicate, see barrier_arrive_if().
ATTNJIT_DEVICE void count_if(bool condition, uint32* address) {
  asm volatile(
      "{\n.reg .pred counts;\n"
      "setp.ne.u32 counts, %1, 0;\n"
      "@counts red.release.gpu.global.add.u32 [%0], 1;\n}" ::"l"(address),
      "r"(static_cast<uint32>(condition))
      : "memory");
}

// Counts on and returns the count before: the order of those who count is any, and orders nothing
// else.
ATTNJIT_DEVICE uint32 take_count(uint32* address) {
  uint32 before;
  asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], 1;"
               : "=r"(before)
               : "l"(address)
               : "memory");
  return before;
}
// Adds to a word of shared memory and returns what it was before, likewise.
ATTNJIT_DEVICE uint32 add_shared(uint32 address, uint32 value) {
  uint32 before;
  asm volatile("atom.shared.add.u32 %0, [%1], %2;"
               : "=r"(before)
               : "r"(address), "r"(value)
               : "memory");
  return before;
}

}  // namespace attnjit::kernel::ptx

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

// ---- attnjit/tile/sequence_keys.cuh

namespace attnjit::kernel {

ATTNJIT_DEVICE int lower(int a, int b) { return a < b ? a : b; }

// Rows or keys in use of a sequence, of `limit` that it has; all without `lengths`.
ATTNJIT_DEVICE int rows_in_use(const int32* lengths, int sequence, int limit) {
  if (lengths == nullptr) return limit;
  const int length = ptx::load_global(lengths + sequence);
  return length < 0 ? 0 : lower(length, limit);
}

// The keys of one of the sequences of `q`: those from its begin in `kv` to the next one, or, where
// keys are paged, those in use, which its row of the block table counts from 0.
template <bool kPagedKeys>
ATTNJIT_DEVICE PackedRange keys_of_sequence(const PackedRows& q, const PackedRows& kv,
                                            const int32* used_kv, int sequence) {
  if constexpr (kPagedKeys) {
    return {0, sequence < q.num_sequences ? rows_in_use(used_kv, sequence, kv.num_rows) : 0};
  } else {
    return range_of(kv, sequence);
  }
}

}  // namespace attnjit::kernel

// Writes the order in which the forward works on the blocks of rows of packed sequences: from those
// that cost most to those that cost nothing. One thread block sorts them by counting, so that the
// forward, which begins meanwhile, reads an entry for each.
//
// Threads go over the numbers of packed_rows.h, not over sequences, of which one may have all the
// rows. Blocks of rows of one bucket come in any order.
namespace attnjit::kernel {

// The sum over the lanes up to this one.
ATTNJIT_DEVICE uint32 running_sum(uint32 value) {
  const int lane = ptx::lane_index();
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const uint32 before = ptx::warp_broadcast(value, lane < distance ? lane : lane - distance);
    if (lane >= distance) value += before;
  }
  return value;
}

// The last of `count` things in a row for which `begun` holds, or the first.
template <class Begun>
ATTNJIT_DEVICE int last_begun(int count, Begun begun) {
  int first = 0;
  while (count > 1) {
    const int half = count / 2;
    if (begun(first + half)) first += half;
    count -= half;
  }
  return first;
}

template <PackedOrderConfig kConfig>
struct PackedOrder {
  static_assert(why_invalid(kConfig) == nullptr, "why_invalid(config) in packed_order_config.h");
  static_assert(kConfig.num_threads() == kCostBuckets && kCostBuckets == 32 * 32);
  static constexpr int kSize = kConfig.block_q, kHeads = kConfig.packed_heads;

  const PackedOrderParams& params;
  const int sequences = params.q.num_sequences + 1;  // with the rows that belong to none
  const int stride = ceil_div(sequences, PackedOrderConfig::kSamples);  // of samples
  const int samples = ceil_div(sequences, stride);

  ATTNJIT_DEVICE void run() const {
    ptx::let_next_kernel_begin();
    ptx::store_shared_4(counts(ptx::thread_index()), 0);
    for (int i = ptx::thread_index(); i < samples; i += kConfig.num_threads()) {
      ptx::store_shared_4(begins(i), static_cast<uint32>(begin_of(params.q, i * stride)));
    }
    ptx::block_sync();  // the counts are 0, and the samples are there
    for_each_block([&](const PackedTile&, uint32 bucket) { ptx::add_shared(bucket, 1); });
    ptx::block_sync();  // the blocks of each bucket are counted
    const Totals all = place_buckets();
    ptx::block_sync();  // each bucket has its place
    for_each_block(
        [&](const PackedTile& tile, uint32 bucket) { put(ptx::add_shared(bucket, 1), tile); });
    if (ptx::thread_index() != 0) return;
    put(all.tiles, {params.q.num_sequences, ceil_div(params.q.num_rows * kHeads, kSize)});
    set_count(PackedWork::kTaken, 0);
    set_count(PackedWork::kTiles, all.tiles);
    set_count(PackedWork::kSection, params.num_planes / num_sections(all));
  }

 private:
  // Of all blocks of rows of a plane: their number, their time and that of the costliest.
  struct Totals {
    uint32 tiles;
    float time, longest;
  };

  ATTNJIT_DEVICE static uint32 counts(int bucket) { return ptx::shared_base() + 4 * bucket; }
  ATTNJIT_DEVICE static uint32 totals(int warp) {
    return ptx::shared_base() + kConfig.totals_offset() + 12 * warp;
  }
  ATTNJIT_DEVICE static uint32 begins(int sample) {
    return ptx::shared_base() + kConfig.begins_offset() + 4 * sample;
  }
  ATTNJIT_DEVICE void put(uint32 rank, const PackedTile& tile) const {
    ptx::store_global(
        reinterpret_cast<ptx::Vector8*>(params.work.tiles + rank),
        ptx::Vector8{{static_cast<uint32>(tile.sequence), static_cast<uint32>(tile.tile)}});
  }

  ATTNJIT_DEVICE static int first_tile(int begin, int sequence) {
    return first_packed_tile(begin * kHeads, sequence, kSize);
  }
  ATTNJIT_DEVICE PackedTile find(int number) const {
    const int sample = last_begun(samples, [&](int i) {
      return first_tile(static_cast<int>(ptx::load_shared_4(begins(i))), i * stride) <= number;
    });
    const int first = sample * stride, rest = sequences - first;
    const int sequence = first + last_begun(rest < stride ? rest : stride, [&](int i) {
                           return first_tile(begin_of(params.q, first + i), first + i) <= number;
                         });
    return {sequence, number - first_tile(begin_of(params.q, sequence), sequence)};
  }
  ATTNJIT_DEVICE int num_keys(int sequence) const {
    if (sequence >= params.q.num_sequences) return 0;
    return keys_of_sequence<kConfig.paged_keys>(params.q, params.kv, params.used_kv, sequence).size;
  }
  // Calls visit(tile, address of its bucket) for the thread's share of the blocks that have rows.
  template <class Visit>
  ATTNJIT_DEVICE void for_each_block(Visit visit) const {
    const int numbers = num_packed_tiles(params.q.num_rows * kHeads, params.q.num_sequences, kSize);
    for (int number = ptx::thread_index(); number < numbers; number += kConfig.num_threads()) {
      const PackedTile tile = find(number);
      const int queries = range_of(params.q, tile.sequence).size;
      // Numbers that the caller must not give may leave no sequence that has begun.
      if (tile.tile < 0 || tile.tile >= ceil_div(queries * kHeads, kSize)) continue;
      const int cost =
          packed_cost(params.costs, queries, num_keys(tile.sequence), kSize / kHeads, tile.tile);
      visit(tile, counts(kCostBuckets - 1 - cost_bucket(cost)));
    }
  }
  // Puts the rank of its first block in the place of each bucket's count.
  ATTNJIT_DEVICE static Totals place_buckets() {
    const int warp = ptx::warp_index(), lane = ptx::lane_index();
    const uint32 mine = counts(ptx::thread_index());
    const uint32 count = ptx::load_shared_4(mine), upto = running_sum(count);
    const float time = bucket_time(kCostBuckets - 1 - ptx::thread_index());
    const float sum = ptx::warp_sum(static_cast<float>(count) * time);
    const float longest = ptx::warp_max(count == 0 ? 0.0f : time);
    if (lane == 31) {
      ptx::store_shared_4(totals(warp), upto);
      ptx::store_shared_4(totals(warp) + 4, ptx::as_bits(sum));
      ptx::store_shared_4(totals(warp) + 8, ptx::as_bits(longest));
    }
    ptx::block_sync();  // the totals of all warps are there
    const uint32 warps = running_sum(ptx::load_shared_4(totals(lane)));
    const uint32 before = ptx::warp_broadcast(warps, warp == 0 ? 0 : warp - 1);
    ptx::store_shared_4(mine, (warp == 0 ? 0 : before) + upto - count);
    return {ptx::warp_broadcast(warps, 31),
            ptx::warp_sum(ptx::as_float(ptx::load_shared_4(totals(lane) + 4))),
            ptx::warp_max(ptx::as_float(ptx::load_shared_4(totals(lane) + 8)))};
  }
  ATTNJIT_DEVICE uint32 num_sections(const Totals& all) const {
    const auto planes = static_cast<float>(params.num_planes);
    const auto blocks = static_cast<float>(params.num_blocks);
    const float rounds = all.longest > 0.0f ? all.time * planes / (all.longest * blocks) : 1.0f;
    return packed_sections(params.most_sections, params.num_kv_heads, rounds);
  }
  ATTNJIT_DEVICE void set_count(int count, uint32 value) const {
    ptx::store_global(params.work.counts + count, value);
  }
};

template <PackedOrderConfig kConfig>
ATTNJIT_DEVICE void packed_order(const PackedOrderParams& params) {
  PackedOrder<kConfig>{params}.run();
}

}  // namespace attnjit::kernel

using namespace attnjit::kernel;

inline constexpr PackedOrderConfig kConfig{
    .block_q = 128,
    .packed_heads = 1,
    .paged_keys = false,
};

extern "C" __global__ void __launch_bounds__(kConfig.num_threads())
packed_order(
    const __grid_constant__ PackedOrderParams params) {
  packed_order<kConfig>(params);
}
