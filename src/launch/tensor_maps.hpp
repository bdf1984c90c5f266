#pragma once
#include <cuda.h>

#include <cstdint>

#include "attnjit/forward.hpp"
#include "attnjit/tensor_map.h"
#include "launch/tensor_map_table.hpp"
#include "problem/problem.hpp"

/// Tensor maps of the tiles that kernels load and store by the copy engine. All functions throw
/// Error(kCuda) where the driver refuses a map.
namespace attnjit::launch {

/// Leaves the map as it is, for plans that are looked at and not launched.
CUresult CUDAAPI encode_nothing(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*,
                                const cuuint64_t*, const cuuint64_t*, const cuuint32_t*,
                                const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
                                CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

/// A tensor of elements of one, two or four bytes, as [batch, heads, rows, columns].
struct MappedTensor {
  const char* name;
  void* data;
  problem::RowStrides strides;
  std::int32_t batch, heads, rows, columns;
  cuuint32_t box_columns = 64;  ///< of a slab of 64 or 32 columns of 16 bits, or others
  cuuint64_t element_bytes = 2;
};

MappedTensor mapped_bias(const problem::Problem& problem, const ForwardArgs& args);

/// Boxes of `box_rows` rows that follow one another.
void make_rows(const TensorMapMaker& maker, const MappedTensor& tensor, DType dtype, int box_rows,
               kernel::TensorMap& map);

/// Boxes whose rows are those of pack_gqa: all heads of a kv head of one query, then those of
/// the next.
void make_pack_gqa_rows(const TensorMapMaker& maker, const MappedTensor& tensor, DType dtype,
                        int box_rows, int pack_gqa_heads, kernel::TensorMap& map);

/// The tiles of kernel::StridedKeyOrder, in boxes of `box_keys` keys. Where tiles begin
/// `anywhere`, a box has one row of each four. `tail` is for the tile with the rows past the last
/// multiple of 4.
void make_keys(const TensorMapMaker& maker, const MappedTensor& tensor, DType dtype, int box_keys,
               bool anywhere, kernel::TensorMap& map, kernel::TensorMap& tail);

}  // namespace attnjit::launch
