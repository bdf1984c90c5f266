#include "launch/tensor_maps.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "attnjit/error.hpp"
#include "attnjit/tile/key_order.h"
#include "problem/checks.hpp"

namespace attnjit::launch {
namespace {

constexpr cuuint64_t kLineBytes = 128;   // the widest of the swizzle
constexpr cuuint32_t kSlabColumns = 64;  // of 16 bits

static_assert(sizeof(kernel::TensorMap) == sizeof(CUtensorMap));
static_assert(alignof(kernel::TensorMap) >= alignof(CUtensorMap));

// A tensor of elements of one, two or four bytes, as [batch, heads, rows, columns].
struct Source {
  const char* name;
  void* data;
  problem::RowStrides strides;
  std::int32_t batch, heads, rows, columns;
  cuuint32_t box_columns = kSlabColumns;
  cuuint64_t element_bytes = 2;
};

// An axis after that of the columns: its extent, its stride in elements, and of a box how many of
// its rows are covered and every which one is taken.
struct Axis {
  std::int64_t extent, stride;
  cuuint32_t box = 1, step = 1;
};

// An axis of extent 1 has no stride of its own; the encoder wants one.
cuuint64_t byte_stride(const Axis& axis, cuuint64_t element_bytes) {
  return axis.extent == 1 ? 16 : static_cast<cuuint64_t>(axis.stride) * element_bytes;
}

CUtensorMapDataType element_type(const Source& source, DType dtype) {
  if (source.element_bytes == 1) return CU_TENSOR_MAP_DATA_TYPE_UINT8;
  if (dtype == DType::kFloat32) return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  return dtype == DType::kFloat16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                  : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
}

// Boxes of slabs are swizzled, as kernel::ForwardShared has it.
template <std::size_t kAxes>
void make_map(const TensorMapMaker& maker, const Source& source, DType dtype,
              const std::array<Axis, kAxes>& axes, kernel::TensorMap& map) {
  const bool swizzled = source.box_columns * source.element_bytes == kLineBytes;
  TensorMapShape shape{
      .type = element_type(source, dtype),
      .swizzle = swizzled ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_NONE,
      .rank = kAxes + 1};
  shape.extents[0] = static_cast<cuuint64_t>(source.columns);
  shape.box[0] = source.box_columns;
  shape.steps[0] = 1;
  for (std::size_t i = 0; i < kAxes; ++i) {
    shape.extents[i + 1] = static_cast<cuuint64_t>(axes[i].extent);
    shape.strides[i] = byte_stride(axes[i], source.element_bytes);
    shape.box[i + 1] = axes[i].box;
    shape.steps[i + 1] = axes[i].step;
  }
  const CUresult result = maker.make(shape, source.data, reinterpret_cast<CUtensorMap&>(map));
  if (result == CUDA_SUCCESS) return;
  throw Error(
      ErrorKind::kCuda,
      fmt::format("the driver refuses a tensor map of {} (CUresult {}): address {}, strides "
                  "{} {} {}; use --path mma",
                  source.name, static_cast<int>(result), source.data, source.strides.batch,
                  source.strides.head, source.strides.row));
}

// Rows follow one another.
void make_rows(const TensorMapMaker& maker, const Source& s, DType dtype, int box_rows,
               kernel::TensorMap& map) {
  const std::array axes{Axis{s.rows, s.strides.row, static_cast<cuuint32_t>(box_rows)},
                        Axis{s.heads, s.strides.head}, Axis{s.batch, s.strides.batch}};
  make_map(maker, s, dtype, axes, map);
}

// Rows of a box are those of packed heads: all heads of a kv head of one query, then those of the
// next.
void make_packed_rows(const TensorMapMaker& maker, const Source& s, DType dtype, int box_rows,
                      int packed_heads, kernel::TensorMap& map) {
  const std::array axes{
      Axis{packed_heads, s.strides.head, static_cast<cuuint32_t>(packed_heads)},
      Axis{s.rows, s.strides.row, static_cast<cuuint32_t>(box_rows / packed_heads)},
      Axis{s.heads / packed_heads, packed_heads * s.strides.head}, Axis{s.batch, s.strides.batch}};
  make_map(maker, s, dtype, axes, map);
}

Source bias_source(const problem::Problem& p, const ForwardArgs& args) {
  const problem::Operand& bias = p.bias;
  return {.name = "bias",
          .data = args.bias->data,
          .strides = {bias.batch_stride, bias.head_stride, bias.query_stride},
          .batch = bias.num_batches,
          .heads = bias.num_heads,
          .rows = bias.queries,
          .columns = bias.keys,
          .element_bytes = static_cast<cuuint64_t>(element_size(bias.dtype))};
}

// The tiles of kernel::StridedKeyOrder, in pieces of `box_keys` keys. Where tiles begin `anywhere`,
// a box has one row of each four. `tail` is for the tile with the rows past the last multiple of 4.
void make_keys(const TensorMapMaker& maker, const Source& s, DType dtype, int box_keys,
               bool anywhere, kernel::TensorMap& map, kernel::TensorMap& tail) {
  const int stride = kernel::StridedKeyOrder::stride(box_keys);
  const auto step = static_cast<cuuint32_t>(anywhere ? 1 : stride);
  const auto box = static_cast<cuuint32_t>(box_keys / stride);
  const std::array axes{Axis{std::max(1, s.rows / stride), stride * s.strides.row, box},
                        Axis{s.rows < stride ? 1 : stride, s.strides.row, step},
                        Axis{s.heads, s.strides.head}, Axis{s.batch, s.strides.batch}};
  make_map(maker, s, dtype, axes, map);
  if (s.rows % 4 == 0) return;
  const std::array every_fourth{Axis{s.rows, s.strides.row, static_cast<cuuint32_t>(box_keys), 4},
                                Axis{s.heads, s.strides.head}, Axis{s.batch, s.strides.batch}};
  make_map(maker, s, dtype, every_fourth, tail);
}

// All maps of a kernel of dk and dv but that of dbias.
template <class Config>
void set_key_tile_maps(const Config& config, const problem::BackwardProblem& problem,
                       const BackwardArgs& args, const TensorMapMaker& maker,
                       kernel::BackwardWgmmaParams& params) {
  const problem::Problem& p = problem.forward;
  if (p.tensor_batch() == 0 || p.seqlen_kv == 0) return;  // there is no thread block
  const ForwardArgs& forward = args.forward;
  const auto rows = [&](const char* name, const Tensor& tensor, const problem::RowStrides& strides,
                        int heads, int seqlen, int columns, int box, kernel::TensorMap& map) {
    const Source source{name, tensor.data, strides, p.tensor_batch(), heads, seqlen, columns};
    make_rows(maker, source, p.dtype, box, map);
  };
  rows("k", forward.k, p.k, p.num_heads_kv, p.seqlen_kv, p.head_dim, config.block_kv, params.k);
  rows("v", forward.v, p.v, p.num_heads_kv, p.seqlen_kv, p.head_dim_v, config.block_kv, params.v);
  if (p.seqlen_q == 0) return;  // nothing of the others is loaded
  rows("q", forward.q, p.q, p.num_heads_q, p.seqlen_q, p.head_dim, config.block_q, params.q);
  rows("dout", args.dout, problem.dout, p.num_heads_q, p.seqlen_q, p.head_dim_v, config.block_q,
       params.dout);
  if (config.bias_tiles) {
    make_rows(maker, bias_source(p, forward), p.bias.dtype, config.block_q, params.bias);
  } else {
    params.bias = {};  // a map that was left here by chance would hide a use of it
  }
}

}  // namespace

CUresult CUDAAPI encode_nothing(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*,
                                const cuuint64_t*, const cuuint64_t*, const cuuint32_t*,
                                const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
                                CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  return CUDA_SUCCESS;
}

void set_tensor_maps(const kernel::ForwardWgmmaConfig& config, const problem::Problem& p,
                     const ForwardArgs& args, const TensorMapMaker& maker,
                     kernel::ForwardWgmmaParams& params) {
  const std::int32_t batch = p.tensor_batch();
  const Source q{"q", args.q.data, p.q, batch, p.num_heads_q, p.seqlen_q, p.head_dim};
  const Source out{"out", args.out.data, p.out, batch, p.num_heads_q, p.seqlen_q, p.head_dim_v};
  if (config.pack_heads) {
    make_packed_rows(maker, q, p.dtype, config.kPartRows, config.packed_heads(), params.q);
  } else {
    make_rows(maker, q, p.dtype, config.kPartRows, params.q);
  }
  if (config.stages_out()) make_rows(maker, out, p.dtype, 16, params.out);
  if (has_bias_map(config, p)) {
    Source bias = bias_source(p, args);
    bias.box_columns = static_cast<cuuint32_t>(config.block_kv);
    make_rows(maker, bias, p.bias.dtype, config.block_q, params.bias);
  }
  const int piece = config.piece_kv;
  const bool anywhere = p.packed && !p.paged();
  if (p.seqlen_kv == 0) {
    // All rows are dead, and the one tile that they get may hold anything: a row of q.
    const Source any{"q", args.q.data, {}, 1, 1, 1, p.head_dim};
    make_keys(maker, any, p.dtype, piece, anywhere, params.k, params.k_tail);
    params.v_tail = params.k_tail;
    params.v = params.k;
    return;
  }
  const std::int32_t planes = p.key_planes(), rows = p.key_rows();
  const Source k{"k", args.k.data, p.k, planes, p.num_heads_kv, rows, p.head_dim};
  const Source v{"v", args.v.data, p.v, planes, p.num_heads_kv, rows, p.head_dim_v};
  make_keys(maker, k, p.dtype, piece, anywhere, params.k, params.k_tail);
  make_keys(maker, v, p.dtype, piece, anywhere, params.v, params.v_tail);
}

void set_tensor_maps(const kernel::BackwardWgmmaConfig& config,
                     const std::optional<DbiasTiles>& dbias,
                     const problem::BackwardProblem& problem, const BackwardArgs& args,
                     const TensorMapMaker& maker, kernel::BackwardWgmmaParams& params) {
  set_key_tile_maps(config, problem, args, maker, params);
  const problem::Problem& p = problem.forward;
  if (!dbias || p.batch == 0 || p.seqlen_q == 0 || p.seqlen_kv == 0) return;
  const Source tiles{.name = "dbias",
                     .data = dbias->memory.data,
                     .strides = {dbias->memory.batch_stride, dbias->memory.head_stride,
                                 dbias->memory.query_stride},
                     .batch = p.batch,
                     .heads = p.num_heads_q,
                     .rows = p.seqlen_q,
                     .columns = dbias->keys};
  make_rows(maker, tiles, p.dtype, config.block_q, params.dbias);
}

void set_tensor_maps(const kernel::BackwardWideConfig& config,
                     const problem::BackwardProblem& problem, const BackwardArgs& args,
                     const TensorMapMaker& maker, kernel::BackwardWgmmaParams& params) {
  set_key_tile_maps(config, problem, args, maker, params);
}

void set_tensor_maps(const kernel::BackwardDqWgmmaConfig& config,
                     const problem::BackwardProblem& problem, const BackwardArgs& args,
                     const TensorMapMaker& maker, kernel::BackwardDqWgmmaParams& params) {
  const problem::Problem& p = problem.forward;
  if (p.tensor_batch() == 0 || p.seqlen_q == 0) return;  // there is no thread block
  const ForwardArgs& forward = args.forward;
  const std::int32_t batch = p.tensor_batch();
  const Source q{"q", forward.q.data, p.q, batch, p.num_heads_q, p.seqlen_q, p.head_dim};
  const Source dout{"dout",        args.dout.data, problem.dout, batch,
                    p.num_heads_q, p.seqlen_q,     p.head_dim_v};
  make_rows(maker, q, p.dtype, config.block_q, params.q);
  make_rows(maker, dout, p.dtype, config.block_q, params.dout);
  if (p.seqlen_kv == 0) return;  // nothing of the others is loaded
  const Source k{"k", forward.k.data, p.k, batch, p.num_heads_kv, p.seqlen_kv, p.head_dim};
  const Source v{"v", forward.v.data, p.v, batch, p.num_heads_kv, p.seqlen_kv, p.head_dim_v};
  make_keys(maker, k, p.dtype, config.block_kv, p.packed, params.k, params.k_tail);
  make_keys(maker, v, p.dtype, config.block_kv, p.packed, params.v, params.v_tail);
}

}  // namespace attnjit::launch
