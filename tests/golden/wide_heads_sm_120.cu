// attn_fwd bf16 d256 gqa2 right | q64 kv64 s1 w4 b2

// ---- attnjit/forward_mma.cuh

// ---- attnjit/forward_config.h

// ---- attnjit/types.h
// Types and small constexpr helpers that kernels and host code share. Includes nothing, so that
// NVRTC needs no header search path and host compilers agree on every layout.

// A function that host code, kernels and constant expressions may call.
#ifdef __CUDACC__
#define ATTNJIT_CONSTEXPR __host__ __device__ constexpr
#else
#define ATTNJIT_CONSTEXPR constexpr
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

ATTNJIT_CONSTEXPR int element_bytes(DType dtype) { return dtype == DType::kFloat32 ? 4 : 2; }
ATTNJIT_CONSTEXPR int ceil_div(int a, int b) { return (a + b - 1) / b; }
ATTNJIT_CONSTEXPR int round_up(int a, int b) { return ceil_div(a, b) * b; }

// A score at or below this counts as -inf: additive masks hold finfo.min, whose product with
// log2(e) would overflow fp32.
inline constexpr float kDeadScore = -1e38f;
inline constexpr float kLog2E = 1.4426950408889634f;
inline constexpr float kLn2 = 0.6931471805599453f;

}  // namespace attnjit::kernel

namespace attnjit::kernel {

// Everything that specialises the portable forward kernel, apart from its features. A value of
// this type is the template argument of the kernel.
struct ForwardConfig {
  DType dtype;       // of q, k, v and out: 16 bits wide
  int head_dim;      // columns of q and k, 1 ... 256
  int head_dim_v;    // columns of v and out, 1 ... 256
  int gqa_ratio;     // query heads that share one kv head
  bool aligned;      // q, k, v and out move in 16-byte pieces; else element by element
  bool scale_first;  // scale the scores before the features see them (bias, or scale <= 0)
  int block_q;       // query rows of a thread block
  int block_kv;      // keys of a tile
  int num_stages;    // K/V buffers: 1 = K and V alternate, >= 2 = a ring of tiles
  int num_warps;
  int min_blocks;  // thread blocks per SM that registers are limited for

  ATTNJIT_CONSTEXPR int num_threads() const { return num_warps * 32; }
  // The matrix instruction takes 16 columns of q and k at a time; v follows for simplicity.
  ATTNJIT_CONSTEXPR int padded_head_dim() const { return round_up(head_dim, 16); }
  ATTNJIT_CONSTEXPR int padded_head_dim_v() const { return round_up(head_dim_v, 16); }
  // 16-row fragments that one warp owns.
  ATTNJIT_CONSTEXPR int row_tiles() const { return block_q / (16 * num_warps); }

  // Shared memory, in bytes: [Q, later O][K x stages][V x stages].
  ATTNJIT_CONSTEXPR int q_bytes() const { return block_q * padded_head_dim() * 2; }
  ATTNJIT_CONSTEXPR int out_bytes() const { return block_q * padded_head_dim_v() * 2; }
  ATTNJIT_CONSTEXPR int q_region_bytes() const {
    return q_bytes() > out_bytes() ? q_bytes() : out_bytes();
  }
  ATTNJIT_CONSTEXPR int k_bytes() const { return block_kv * padded_head_dim() * 2; }
  ATTNJIT_CONSTEXPR int v_bytes() const { return block_kv * padded_head_dim_v() * 2; }
  ATTNJIT_CONSTEXPR int shared_bytes() const {
    return q_region_bytes() + num_stages * (k_bytes() + v_bytes());
  }
};

// The rule that `config` breaks, or nullptr. Architecture limits (shared memory) are the host's.
ATTNJIT_CONSTEXPR const char* why_invalid(const ForwardConfig& config) {
  if (config.dtype == DType::kFloat32) return "dtype must be fp16 or bf16";
  if (config.head_dim < 1 || config.head_dim > 256) return "head_dim must be 1 to 256";
  if (config.head_dim_v < 1 || config.head_dim_v > 256) return "head_dim_v must be 1 to 256";
  if (config.gqa_ratio < 1) return "gqa_ratio must be at least 1";
  if (config.aligned && (config.head_dim % 8 != 0 || config.head_dim_v % 8 != 0))
    return "aligned needs head_dim and head_dim_v to be multiples of 8";
  if (config.num_warps < 1 || config.num_warps > 16) return "num_warps must be 1 to 16";
  if (config.block_q < 1 || config.block_q % (16 * config.num_warps) != 0)
    return "block_q must be a multiple of 16 rows per warp";
  if (config.block_kv < 32 || config.block_kv % 32 != 0)
    return "block_kv must be a multiple of 32 keys";
  if (config.num_stages < 1 || config.num_stages > 4) return "num_stages must be 1 to 4";
  if (config.min_blocks < 1) return "min_blocks must be at least 1";
  return nullptr;
}

}  // namespace attnjit::kernel

// ---- attnjit/forward_params.h

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
  RowStrides q_strides, k_strides, v_strides, out_strides;
  int32 num_heads_q;
  int32 seqlen_q;
  int32 seqlen_kv;
  int32 num_q_tiles;     // ceil(seqlen_q / block_q)
  float score_scale;     // multiplies q k^T when the config says scale_first
  float exponent_scale;  // scores to log2 units: log2(e), times the scale unless scale_first
};

}  // namespace attnjit::kernel

// ---- attnjit/ptx/math.cuh

// ---- attnjit/ptx/device.cuh
// How device functions are declared. The CPU executor supplies its own version of this folder.
#define ATTNJIT_DEVICE __device__ __forceinline__

namespace attnjit::kernel::ptx {

ATTNJIT_DEVICE float infinity() { return __int_as_float(0x7f800000); }

// 2^x and log2(x) of the special function unit; at most 2 ulp off (PTX ISA, ex2 and lg2).
ATTNJIT_DEVICE float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
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

// The bits of an fp32 element.
ATTNJIT_DEVICE float as_float(uint32 bits) { return __int_as_float(static_cast<int>(bits)); }

}  // namespace attnjit::kernel::ptx

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

// ---- attnjit/ptx/memory.cuh

// Every access to global and shared memory. Shared memory is addressed by 32-bit byte addresses
// from shared_base() on.
namespace attnjit::kernel::ptx {

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

template <class T>
ATTNJIT_DEVICE void store_global(T* address, T value) {
  *address = value;
}
ATTNJIT_DEVICE void store_global(Vector16* address, Vector16 v) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(address), "r"(v.word[0]),
               "r"(v.word[1]), "r"(v.word[2]), "r"(v.word[3])
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

// Bit i of the result is lane i's `value`.
ATTNJIT_DEVICE uint32 warp_ballot(bool value) { return __ballot_sync(0xffffffffu, value); }

// Reductions over the four lanes that hold one row of an accumulator fragment.
ATTNJIT_DEVICE float quad_max(float value) {
  value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, 1));
  return fmaxf(value, __shfl_xor_sync(0xffffffffu, value, 2));
}
ATTNJIT_DEVICE float quad_sum(float value) {
  value += __shfl_xor_sync(0xffffffffu, value, 1);
  return value + __shfl_xor_sync(0xffffffffu, value, 2);
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

// ---- attnjit/score/feature.cuh

// ---- attnjit/score/tile_use.h

namespace attnjit::kernel {

// What a tile of scores needs.
enum class TileUse : int { kSkip = 0, kMasked = 1, kPlain = 2 };

}  // namespace attnjit::kernel

namespace attnjit::kernel {

// The part of the problem that one thread block works on, and the thread's place in it.
struct Block {
  int batch, head;
  int first_query;          // of the block
  int end_query;            // one past its last query in use
  int query_len, kv_len;    // rows and keys in use of this batch element
  int seqlen_q, seqlen_kv;  // of the tensors
  int thread_query;         // the thread's first row: + 16 m + 8 h is row h of its row tile m
  int thread_key;           // the thread's first key of a tile
};

// Keys that any query of the block may see.
struct KeyRange {
  int begin, end;
};

// The scores of one thread: [row tile][column group][fragment element], where elements 0 and 1
// belong to row h = 0 and elements 2 and 3 to row h = 1.
template <int kRowTiles, int kGroups>
using Scores = float[kRowTiles][kGroups][4];

// visit(score, m, n, e) for each score, with compile-time indices once unrolled.
template <int kRowTiles, int kGroups, class Visit>
ATTNJIT_DEVICE void for_each_score(Scores<kRowTiles, kGroups>& scores, Visit visit) {
#pragma unroll
  for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
    for (int n = 0; n < kGroups; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) visit(scores[m][n][e], m, n, e);
    }
  }
}

// What softmax knows of one row at the end.
struct RowState {
  float max;  // largest score, scale and bias included; -inf if there is none
  float sum;  // of exp(score - max); 0 marks a dead row
};

// A feature changes scores or drops them. Its verbs, in the order in which a block calls them;
// each does nothing unless the feature says otherwise.
struct Feature {
  // Sets the lengths of the block's batch element.
  ATTNJIT_DEVICE void set_lengths(Block&) {}
  // Fetches what the feature needs to know of the block.
  ATTNJIT_DEVICE void begin(const Block&) {}
  // Narrows the keys that the block's queries may see. All threads call it together.
  ATTNJIT_DEVICE void narrow(const Block&, KeyRange&) {}
  // What tile `tile` needs. All threads call it together.
  ATTNJIT_DEVICE TileUse use(const Block&, int) { return TileUse::kPlain; }
  // Whether K and V of `key` may be read.
  ATTNJIT_DEVICE bool reads_key(int) const { return true; }
  // Starts reading what add() and mask() will want of the tile that begins at `first_key`.
  ATTNJIT_DEVICE void fetch(const Block&, int, TileUse) {}
  // Adds to the scores.
  template <class S>
  ATTNJIT_DEVICE void add(const Block&, S&) {}
  // Sets dropped scores to -inf; called for masked tiles only.
  template <class S>
  ATTNJIT_DEVICE void mask(const Block&, S&, int) {}
  // Last word on a row: `row` is its query.
  ATTNJIT_DEVICE void finish(const Block&, int, RowState&) {}
};

// All features of a kernel as one.
template <class... Features>
struct FeatureSet : Features... {
  ATTNJIT_DEVICE explicit FeatureSet(Features... features) : Features(features)... {}

  ATTNJIT_DEVICE void set_lengths(Block& block) { (Features::set_lengths(block), ...); }
  ATTNJIT_DEVICE void begin(const Block& block) { (Features::begin(block), ...); }
  ATTNJIT_DEVICE void narrow(const Block& block, KeyRange& keys) {
    (Features::narrow(block, keys), ...);
  }
  ATTNJIT_DEVICE TileUse use(const Block& block, int tile) {
    TileUse lowest = TileUse::kPlain;
    ((lowest = lower(lowest, Features::use(block, tile))), ...);
    return lowest;
  }
  ATTNJIT_DEVICE bool reads_key(int key) const { return (Features::reads_key(key) && ...); }
  ATTNJIT_DEVICE void fetch(const Block& block, int first_key, TileUse use) {
    (Features::fetch(block, first_key, use), ...);
  }
  template <class S>
  ATTNJIT_DEVICE void add(const Block& block, S& scores) {
    (Features::add(block, scores), ...);
  }
  template <class S>
  ATTNJIT_DEVICE void mask(const Block& block, S& scores, int first_key) {
    (Features::mask(block, scores, first_key), ...);
  }
  ATTNJIT_DEVICE void finish(const Block& block, int query, RowState& row) {
    (Features::finish(block, query, row), ...);
  }

 private:
  ATTNJIT_DEVICE static TileUse lower(TileUse a, TileUse b) { return a < b ? a : b; }
};

}  // namespace attnjit::kernel

// ---- attnjit/softmax.cuh

namespace attnjit::kernel {

// Softmax over a row that arrives tile by tile: a running maximum, and a correction of what was
// summed under an older one (Milakov and Gimelshein, "Online normalizer calculation for softmax",
// 2018; FlashAttention). Another policy with the same verbs can take its place.
template <int kRowTiles>
struct OnlineSoftmax {
  // The running maximum in log2 units, -inf before the first kept key; over all lanes of the quad.
  // It is the rounded product that every exponent of its time was taken against: a correction
  // from anything else would weigh tiles differently where scores are large.
  float reference[kRowTiles][2];
  float sum[kRowTiles][2];  // of this lane's keys only, until finish()

  ATTNJIT_DEVICE void begin() {
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        reference[m][h] = -ptx::infinity();
        sum[m][h] = 0.0f;
      }
    }
  }

  // Turns the scores of a tile into probabilities 2^(exponent_scale score - reference) and
  // rescales `out`, which holds fragments of the same rows.
  template <int kGroups, int kOutGroups>
  ATTNJIT_DEVICE void step(Scores<kRowTiles, kGroups>& scores, Scores<kRowTiles, kOutGroups>& out,
                           float exponent_scale) {
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        float highest = -ptx::infinity();
#pragma unroll
        for (int n = 0; n < kGroups; ++n) {
          highest = fmaxf(highest, fmaxf(scores[m][n][2 * h], scores[m][n][2 * h + 1]));
        }
        highest = ptx::quad_max(highest);
        const float before = reference[m][h];
        if (highest > kDeadScore) reference[m][h] = fmaxf(before, highest * exponent_scale);
        // A row without a kept key so far has no reference: -inf - -inf would be NaN.
        const float origin = reference[m][h] == -ptx::infinity() ? 0.0f : reference[m][h];
        float total = 0.0f;
#pragma unroll
        for (int n = 0; n < kGroups; ++n) {
#pragma unroll
          for (int e = 2 * h; e < 2 * h + 2; ++e) {
            scores[m][n][e] = ptx::exp2_approx(scores[m][n][e] * exponent_scale - origin);
            total += scores[m][n][e];
          }
        }
        const float correction = ptx::exp2_approx(before - origin);
        sum[m][h] = sum[m][h] * correction + total;
#pragma unroll
        for (int n = 0; n < kOutGroups; ++n) {
          out[m][n][2 * h] *= correction;
          out[m][n][2 * h + 1] *= correction;
        }
      }
    }
  }

  // The state of a row after the last tile.
  ATTNJIT_DEVICE RowState finish(int m, int h) const {
    return {reference[m][h] * kLn2, ptx::quad_sum(sum[m][h])};
  }
};

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
// rows {r, r + 1} + {0, 8, 16, 24} that a key fragment gathers (tile/key_order.cuh), so neither
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
  constexpr int kUnrolled = !kUnroll ? 1 : kPasses <= 8 ? kPasses : 4;
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

// Starts loading rows of `source` (row 0 of the tile, 16-bit elements, kColumns of them valid)
// into `tile`. Rows for which keep(row) is false, and columns from kColumns on, become zero and
// are not read. The caller commits, waits and synchronises.
template <bool kAligned, int kColumns, int kThreads, int kRows, int kPadded, class Keep>
ATTNJIT_DEVICE void load_tile(const SharedTile<kRows, kPadded>& tile, const uint16* source,
                              int64 row_stride, Keep keep) {
  for_each_chunk<kRows, kPadded / 8, kThreads, kAligned>([&](int row, int chunk) {
    const bool valid = chunk * 8 < kColumns && keep(row);
    const uint16* address = source + row * row_stride;
    if constexpr (kAligned) {
      ptx::copy_async_16(tile.address(row, chunk), address + chunk * 8, valid);
    } else {
      ptx::store_shared_16(tile.address(row, chunk),
                           load_elements(address, chunk * 8, valid ? kColumns : 0));
    }
  });
}

// Writes the first `rows` rows and kColumns columns of `tile` to `target` (row 0 of the tile).
template <bool kAligned, int kColumns, int kThreads, int kRows, int kPadded>
ATTNJIT_DEVICE void store_tile(const SharedTile<kRows, kPadded>& tile, uint16* target,
                               int64 row_stride, int rows) {
  for_each_chunk<kRows, kPadded / 8, kThreads, kAligned>([&](int row, int chunk) {
    if (row >= rows || chunk * 8 >= kColumns) return;
    const ptx::Vector16 v = ptx::load_shared_16(tile.address(row, chunk));
    uint16* address = target + row * row_stride + chunk * 8;
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

// ---- attnjit/tile/key_order.cuh

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
  ATTNJIT_DEVICE static int thread_key(int lane) { return 8 * (lane & 3); }
  // Key that stands in `column` (0 ... 7) of column group `n`.
  ATTNJIT_DEVICE static int row(int n, int column) {
    return 32 * (n >> 2) + 8 * (column >> 1) + 2 * (n & 3) + (column & 1);
  }
};

}  // namespace attnjit::kernel

// The portable forward: out = softmax(scale q k^T + features) v for every GPU from sm_80 on,
// with mma.sync, ldmatrix and cp.async.
//
//   q   [batch, Hq,  Lq, D ]      out [batch, Hq, Lq, Dv]
//   k   [batch, Hkv, Lk, D ]      lse [batch, Hq, Lq]
//   v   [batch, Hkv, Lk, Dv]
//
// One thread block computes block_q rows of one head and walks over the keys in tiles:
//
//                 block_kv keys ->
//              +------+------+------+----          each warp owns 16 row_tiles() rows;
//    warp 0    |      |      |      |              its scores, probabilities and output
//    warp 1    |  S = Q K^T, tile by tile          stay in its registers
//    ...       |      |      |      |
//              +------+------+------+----
//
// Shared memory: [ Q, at the end O | K: num_stages tiles | V: num_stages tiles ], swizzled as
// tile/shared_tile.cuh has it. Q is read again for each tile; K and V are streamed by cp.async.
namespace attnjit::kernel {

template <ForwardConfig kConfig, class Features>
struct Forward {
  static_assert(why_invalid(kConfig) == nullptr, "why_invalid(config) in forward_config.h");
  static constexpr int kThreads = kConfig.num_threads();
  static constexpr int kRowTiles = kConfig.row_tiles();
  static constexpr int kGroups = kConfig.block_kv / 8;                // of 8 keys
  static constexpr int kOutGroups = kConfig.padded_head_dim_v() / 8;  // of 8 columns
  static constexpr int kStages = kConfig.num_stages;
  using QTile = SharedTile<kConfig.block_q, kConfig.padded_head_dim()>;
  using OutTile = SharedTile<kConfig.block_q, kConfig.padded_head_dim_v()>;
  using KTile = SharedTile<kConfig.block_kv, kConfig.padded_head_dim()>;
  using VTile = SharedTile<kConfig.block_kv, kConfig.padded_head_dim_v()>;

  // A tile of keys to be worked on; none after the last.
  struct Job {
    int tile;
    TileUse use;
    ATTNJIT_DEVICE bool exists() const { return use != TileUse::kSkip; }
  };

  const ForwardParams& params;
  Features features;
  Block block;
  KeyRange keys;
  int next_tile, end_tile;
  const uint16 *k, *v;  // of the block's kv head
  OnlineSoftmax<kRowTiles> softmax;
  Scores<kRowTiles, kOutGroups> out;

  ATTNJIT_DEVICE Forward(const ForwardParams& p, const Features& f) : params(p), features(f) {}

  ATTNJIT_DEVICE QTile q_tile() const { return {ptx::shared_base()}; }
  ATTNJIT_DEVICE OutTile out_tile() const { return {ptx::shared_base()}; }
  ATTNJIT_DEVICE KTile k_tile(int slot) const {
    return {ptx::shared_base() + kConfig.q_region_bytes() + slot * kConfig.k_bytes()};
  }
  ATTNJIT_DEVICE VTile v_tile(int slot) const {
    return {ptx::shared_base() + kConfig.q_region_bytes() + kStages * kConfig.k_bytes() +
            slot * kConfig.v_bytes()};
  }

  template <class T>
  ATTNJIT_DEVICE static T* head_of(T* base, const RowStrides& strides, int batch, int head) {
    return base + batch * strides.batch + head * strides.head;
  }

  // Finds the block's place. Later rows come first: under a causal mask they take longest.
  ATTNJIT_DEVICE void locate() {
    const uint32 index = ptx::block_index();
    const uint32 plane = index / params.num_q_tiles;
    const int q_tile_index = params.num_q_tiles - 1 - static_cast<int>(index % params.num_q_tiles);
    block.batch = static_cast<int>(plane / params.num_heads_q);
    block.head = static_cast<int>(plane % params.num_heads_q);
    block.seqlen_q = block.query_len = params.seqlen_q;
    block.seqlen_kv = block.kv_len = params.seqlen_kv;
    features.set_lengths(block);
    block.first_query = q_tile_index * kConfig.block_q;
    const int end = block.first_query + kConfig.block_q;
    block.end_query = end < block.query_len ? end : block.query_len;
    const int lane = ptx::lane_index();
    block.thread_query = block.first_query + ptx::warp_index() * 16 * kRowTiles + lane / 4;
    block.thread_key = KeyOrder::thread_key(lane);
    const int kv_head = block.head / kConfig.gqa_ratio;
    k = head_of(static_cast<const uint16*>(params.k), params.k_strides, block.batch, kv_head);
    v = head_of(static_cast<const uint16*>(params.v), params.v_strides, block.batch, kv_head);
    features.begin(block);
    keys = {0, block.kv_len};
    features.narrow(block, keys);
    next_tile = keys.begin / kConfig.block_kv;
    end_tile = (keys.end + kConfig.block_kv - 1) / kConfig.block_kv;
  }

  ATTNJIT_DEVICE Job next_job() {
    while (next_tile < end_tile) {
      const int tile = next_tile++;
      const TileUse use = features.use(block, tile);
      if (use != TileUse::kSkip) return {tile, use};
    }
    return {0, TileUse::kSkip};
  }

  ATTNJIT_DEVICE void load_q() {
    const uint16* q =
        head_of(static_cast<const uint16*>(params.q), params.q_strides, block.batch, block.head) +
        block.first_query * params.q_strides.row;
    load_tile<kConfig.aligned, kConfig.head_dim, kThreads>(
        q_tile(), q, params.q_strides.row,
        [&](int row) { return block.first_query + row < block.end_query; });
  }
  // Keys that no query of the block sees are not read but zeroed: whatever is stored there, a
  // NaN included, would reach the output as 0 * NaN.
  template <int kColumns, class Tile>
  ATTNJIT_DEVICE void load_keys(const Tile& tile, const uint16* head, int64 row_stride, int index) {
    const int first = index * kConfig.block_kv;
    load_tile<kConfig.aligned, kColumns, kThreads>(
        tile, head + first * row_stride, row_stride, [&](int row) {
          const int key = first + row;
          return key >= keys.begin && key < keys.end && features.reads_key(key);
        });
  }
  ATTNJIT_DEVICE void load_k(int slot, const Job& job) {
    if (job.exists()) {
      load_keys<kConfig.head_dim>(k_tile(slot), k, params.k_strides.row, job.tile);
    }
  }
  ATTNJIT_DEVICE void load_v(int slot, const Job& job) {
    if (job.exists()) {
      load_keys<kConfig.head_dim_v>(v_tile(slot), v, params.v_strides.row, job.tile);
    }
  }

  // scores = Q K^T
  ATTNJIT_DEVICE void multiply_q_k(Scores<kRowTiles, kGroups>& scores, const KTile& tile) {
    const int lane = ptx::lane_index();
    const int q_row = ptx::warp_index() * 16 * kRowTiles + (lane & 15);
    for_each_score(scores, [](float& score, int, int, int) { score = 0.0f; });
#pragma unroll
    for (int depth = 0; depth < kConfig.padded_head_dim() / 16; ++depth) {
      ptx::FragmentA a[kRowTiles];
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
        a[m] = ptx::load_fragment_a(q_tile().address(q_row + 16 * m, 2 * depth ^ (lane >> 4)));
      }
#pragma unroll
      for (int n = 0; n < kGroups; n += 2) {
        const int row = KeyOrder::row(n, lane & 7) + 2 * (lane >> 4);
        const ptx::FragmentBPair b =
            ptx::load_fragment_b(tile.address(row, 2 * depth ^ (lane >> 3 & 1)));
#pragma unroll
        for (int m = 0; m < kRowTiles; ++m) {
          ptx::multiply_accumulate<kConfig.dtype>(scores[m][n], a[m], b.word[0]);
          ptx::multiply_accumulate<kConfig.dtype>(scores[m][n + 1], a[m], b.word[1]);
        }
      }
    }
  }

  // out += P V. A score fragment is laid out as an operand already: two column groups of S are
  // the 16 columns of one A fragment.
  ATTNJIT_DEVICE void multiply_p_v(const Scores<kRowTiles, kGroups>& p, const VTile& tile) {
    const int lane = ptx::lane_index();
#pragma unroll
    for (int n = 0; n < kGroups; n += 2) {
      ptx::FragmentA a[kRowTiles];
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
        a[m].word[0] = ptx::pack<kConfig.dtype>(p[m][n][0], p[m][n][1]);
        a[m].word[1] = ptx::pack<kConfig.dtype>(p[m][n][2], p[m][n][3]);
        a[m].word[2] = ptx::pack<kConfig.dtype>(p[m][n + 1][0], p[m][n + 1][1]);
        a[m].word[3] = ptx::pack<kConfig.dtype>(p[m][n + 1][2], p[m][n + 1][3]);
      }
      const int row = KeyOrder::row(n, lane & 7) + 2 * (lane >> 3 & 1);
#pragma unroll
      for (int column = 0; column < kOutGroups; column += 2) {
        const ptx::FragmentBPair b =
            ptx::load_fragment_b_transposed(tile.address(row, column ^ (lane >> 4)));
#pragma unroll
        for (int m = 0; m < kRowTiles; ++m) {
          ptx::multiply_accumulate<kConfig.dtype>(out[m][column], a[m], b.word[0]);
          ptx::multiply_accumulate<kConfig.dtype>(out[m][column + 1], a[m], b.word[1]);
        }
      }
    }
  }

  // Works on the tile in `slot`; before_v() runs between the two products.
  template <class BeforeV>
  ATTNJIT_DEVICE void attend(const Job& job, int slot, BeforeV before_v) {
    const int first_key = job.tile * kConfig.block_kv;
    Scores<kRowTiles, kGroups> scores;
    features.fetch(block, first_key, job.use);
    multiply_q_k(scores, k_tile(slot));
    before_v();
    if constexpr (kConfig.scale_first) {
      for_each_score(scores, [&](float& score, int, int, int) { score *= params.score_scale; });
    }
    features.add(block, scores);
    if (job.use == TileUse::kMasked) features.mask(block, scores, first_key);
    softmax.step(scores, out, params.exponent_scale);
    multiply_p_v(scores, v_tile(slot));
  }

  // One buffer each for K and V: V streams in while S is computed, the next K under P V.
  ATTNJIT_DEVICE void walk_alternating() {
    Job job = next_job();
    load_k(0, job);
    ptx::copy_async_commit();
    while (job.exists()) {
      ptx::copy_async_wait<0>();
      ptx::block_sync();  // K is there for all; all are done with the previous V
      load_v(0, job);
      ptx::copy_async_commit();
      const Job next = next_job();
      attend(job, 0, [&] {
        ptx::copy_async_wait<0>();
        ptx::block_sync();  // V is there for all; all are done with this K
        load_k(0, next);
        ptx::copy_async_commit();
      });
      job = next;
    }
  }

  // A ring of kStages tiles of K and V, kStages - 1 of them ahead; one group of copies a tile.
  ATTNJIT_DEVICE void walk_ring() {
    Job jobs[kStages];  // jobs[0] is worked on, the others are on their way
#pragma unroll
    for (int s = 0; s < kStages - 1; ++s) {
      jobs[s] = next_job();
      load_k(s, jobs[s]);
      load_v(s, jobs[s]);
      ptx::copy_async_commit();
    }
    for (int slot = 0; jobs[0].exists(); slot = slot + 1 == kStages ? 0 : slot + 1) {
      ptx::copy_async_wait<kStages - 2>();
      ptx::block_sync();  // this tile is there for all; all are done with the one before
      const int freed = slot == 0 ? kStages - 1 : slot - 1;
      jobs[kStages - 1] = next_job();
      load_k(freed, jobs[kStages - 1]);
      load_v(freed, jobs[kStages - 1]);
      ptx::copy_async_commit();
      attend(jobs[0], slot, [] {});
#pragma unroll
      for (int s = 0; s + 1 < kStages; ++s) jobs[s] = jobs[s + 1];
    }
  }

  // Divides by the sum, writes lse, and stages the rows in shared memory for 16-byte stores.
  ATTNJIT_DEVICE void write() {
    ptx::copy_async_wait<0>();
    ptx::block_sync();  // all are done with Q, whose place O takes
    const int lane = ptx::lane_index();
    const int warp_row = ptx::warp_index() * 16 * kRowTiles + lane / 4;
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int query = block.thread_query + 16 * m + 8 * h;
        RowState row = softmax.finish(m, h);
        features.finish(block, query, row);
        const bool dead = row.sum == 0.0f;
        write_lse(query, dead ? -ptx::infinity() : row.max + ptx::log2_approx(row.sum) * kLn2);
        const float inverse = 1.0f / row.sum;
#pragma unroll
        for (int n = 0; n < kOutGroups; ++n) {
          // A select, not a product with 0: the sum of a dead row may hold NaN.
          const float low = dead ? 0.0f : out[m][n][2 * h] * inverse;
          const float high = dead ? 0.0f : out[m][n][2 * h + 1] * inverse;
          ptx::store_shared_4(out_tile().address(warp_row + 16 * m + 8 * h, n) + 4 * (lane & 3),
                              ptx::pack<kConfig.dtype>(low, high));
        }
      }
    }
    ptx::block_sync();  // O is complete
    uint16* target =
        head_of(static_cast<uint16*>(params.out), params.out_strides, block.batch, block.head) +
        block.first_query * params.out_strides.row;
    store_tile<kConfig.aligned, kConfig.head_dim_v, kThreads>(
        out_tile(), target, params.out_strides.row, block.seqlen_q - block.first_query);
  }
  ATTNJIT_DEVICE void write_lse(int query, float value) {
    if (params.lse == nullptr || (ptx::lane_index() & 3) != 0 || query >= block.seqlen_q) return;
    const int64 plane = static_cast<int64>(block.batch) * params.num_heads_q + block.head;
    ptx::store_global(params.lse + plane * block.seqlen_q + query, value);
  }

  ATTNJIT_DEVICE void run() {
    locate();
    load_q();  // joins the first group of copies
    softmax.begin();
    for_each_score(out, [](float& element, int, int, int) { element = 0.0f; });
    if constexpr (kStages == 1) {
      walk_alternating();
    } else {
      walk_ring();
    }
    write();
  }
};

template <ForwardConfig kConfig, class... Features>
ATTNJIT_DEVICE void forward(const ForwardParams& params, Features... features) {
  Forward<kConfig, FeatureSet<Features...>>(params, FeatureSet<Features...>(features...)).run();
}

}  // namespace attnjit::kernel

// ---- attnjit/score/band.cuh

// ---- attnjit/score/band_params.h

namespace attnjit::kernel {

// Axis limits of a window around the diagonal; causal is right = 0 without a left limit.
struct BandParams {
  int32 left, right;   // keys before / after the diagonal, used where the config bounds that side
  int32 bottom_right;  // 1: the diagonal ends at the last query and key; 0: it starts at the first
};

}  // namespace attnjit::kernel

namespace attnjit::kernel {

// Keeps query + off - left <= key <= query + off + right, and drops the keys past the end. The
// sides that are open are not compiled.
template <ForwardConfig kConfig, bool kLeft, bool kRight>
struct Band : Feature {
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
    if (params.bottom_right) diagonal = block.kv_len - block.query_len;
  }
  ATTNJIT_DEVICE void narrow(const Block& block, KeyRange& keys) {
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
    const int first = tile * kConfig.block_kv;
    bool cut = first + kConfig.block_kv > end_key(block, block.first_query);
    if constexpr (kLeft) cut |= first < begin_key(block.end_query - 1);
    return cut ? TileUse::kMasked : TileUse::kPlain;
  }
  template <class S>
  ATTNJIT_DEVICE void mask(const Block& block, S& scores, int first_key) {
    const int origin = first_key + block.thread_key;
#pragma unroll
    for (int m = 0; m < kConfig.row_tiles(); ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int query = block.thread_query + 16 * m + 8 * h;
        const int end = end_key(block, query) - origin;
        const int begin = kLeft ? begin_key(query) - origin : 0;
#pragma unroll
        for (int n = 0; n < kConfig.block_kv / 8; ++n) {
#pragma unroll
          for (int e = 2 * h; e < 2 * h + 2; ++e) {
            const int key = KeyOrder::offset(n, e);
            if (key >= end || (kLeft && key < begin)) scores[m][n][e] = -ptx::infinity();
          }
        }
      }
    }
  }
};

}  // namespace attnjit::kernel

using namespace attnjit::kernel;

inline constexpr ForwardConfig kConfig{
    .dtype = DType::kBFloat16,
    .head_dim = 256,
    .head_dim_v = 256,
    .gqa_ratio = 2,
    .aligned = true,
    .scale_first = false,
    .block_q = 64,
    .block_kv = 64,
    .num_stages = 1,
    .num_warps = 4,
    .min_blocks = 2,
};

extern "C" __global__ void __launch_bounds__(kConfig.num_threads(), kConfig.min_blocks)
attn_fwd(
    const __grid_constant__ ForwardParams params,
    const __grid_constant__ BandParams band) {
  forward<kConfig>(params,
                   Band<kConfig, false, true>(band));
}
