#include "launch/tensor_maps.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "attnjit/error.hpp"
#include "attnjit/tile/key_order.h"

namespace attnjit::launch {
namespace {

static_assert(sizeof(kernel::TensorMap) == sizeof(CUtensorMap));
static_assert(alignof(kernel::TensorMap) >= alignof(CUtensorMap));

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

CUtensorMapDataType element_type(const MappedTensor& source, DType dtype) {
  if (source.element_bytes == 1) return CU_TENSOR_MAP_DATA_TYPE_UINT8;
  if (dtype == DType::kFloat32) return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  return dtype == DType::kFloat16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                  : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
}

// Boxes of slabs are swizzled, as kernel::SlabTile has it.
CUtensorMapSwizzle swizzle_of(const MappedTensor& source) {
  if (source.box_columns * source.element_bytes == 128) return CU_TENSOR_MAP_SWIZZLE_128B;
  const bool narrow = source.box_columns == 32 && source.element_bytes == 2;
  return narrow ? CU_TENSOR_MAP_SWIZZLE_64B : CU_TENSOR_MAP_SWIZZLE_NONE;
}

template <std::size_t kAxes>
void make_map(const TensorMapMaker& maker, const MappedTensor& source, DType dtype,
              const std::array<Axis, kAxes>& axes, kernel::TensorMap& map) {
  TensorMapShape shape{
      .type = element_type(source, dtype), .swizzle = swizzle_of(source), .rank = kAxes + 1};
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

}  // namespace

CUresult CUDAAPI encode_nothing(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*,
                                const cuuint64_t*, const cuuint64_t*, const cuuint32_t*,
                                const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
                                CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  return CUDA_SUCCESS;
}

void make_rows(const TensorMapMaker& maker, const MappedTensor& s, DType dtype, int box_rows,
               kernel::TensorMap& map) {
  const std::array axes{Axis{s.rows, s.strides.row, static_cast<cuuint32_t>(box_rows)},
                        Axis{s.heads, s.strides.head}, Axis{s.batch, s.strides.batch}};
  make_map(maker, s, dtype, axes, map);
}

void make_pack_gqa_rows(const TensorMapMaker& maker, const MappedTensor& s, DType dtype,
                        int box_rows, int pack_gqa_heads, kernel::TensorMap& map) {
  const std::array axes{
      Axis{pack_gqa_heads, s.strides.head, static_cast<cuuint32_t>(pack_gqa_heads)},
      Axis{s.rows, s.strides.row, static_cast<cuuint32_t>(box_rows / pack_gqa_heads)},
      Axis{s.heads / pack_gqa_heads, pack_gqa_heads * s.strides.head},
      Axis{s.batch, s.strides.batch}};
  make_map(maker, s, dtype, axes, map);
}

MappedTensor mapped_bias(const problem::Problem& p, const ForwardArgs& args) {
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

void make_keys(const TensorMapMaker& maker, const MappedTensor& s, DType dtype, int box_keys,
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

}  // namespace attnjit::launch
