#pragma once
#include "attnjit/packed_rows.h"
#include "attnjit/score/batch_groups_params.h"
#include "attnjit/score/bias_grad_params.h"
#include "attnjit/types.h"

namespace attnjit::kernel {

// Specialises the kernel that reduces partials of a bias gradient.
struct BiasSumConfig {
  DType dtype;  // of dbias
  DType
      partials;  // fp32; or 16 bits wide: planes of dS, whose rows of keys are aligned to 16 bytes
  bool vectorized;    // eight keys of dbias are contiguous and aligned to 16 bytes
  bool over_queries;  // the queries of the partials are summed too: a thread block per element
  bool packed;        // partials are rows of packed sequences, each of which is a batch element
  bool groups;        // batch elements share planes of dbias, which has several

  ATTNJIT_CONSTEXPR int num_threads() const { return 256; }
  ATTNJIT_CONSTEXPR bool sums_planes() const { return partials != DType::kFloat32; }
  // Neighbouring elements of a row of dbias that a thread block computes. Of planes it has
  // plane_rows() rows, so that a tile of StoredTiles holds them all.
  ATTNJIT_CONSTEXPR int block_columns() const {
    return over_queries ? 1 : sums_planes() ? 128 : 4 * num_threads();
  }
  ATTNJIT_CONSTEXPR int plane_rows() const { return 64; }
  ATTNJIT_CONSTEXPR int shared_bytes() const { return over_queries ? num_threads() * 4 : 0; }
};

// An axis of dbias: its size, and how many neighbours on the axis of the partials each element
// sums.
struct BiasSumAxis {
  int32 size, partials;
  int64 partial_stride;  // of the partials, elements
  int64 target_stride;   // of dbias, elements
};

// Where batch elements share planes in groups these are Grouped, and a plane has batch.partials
// neighbours in each of its runs.
struct BiasSumParams {
  const void* partials;
  void* target;
  // The last axis of dbias, keys or queries, is `column`; `row` is the one before, of size 1 where
  // `column` is the queries.
  BiasSumAxis batch, head, row, column;
  int32 num_column_blocks;  // ceil(column.size / block_columns)
  int32 fragments;    // 1: partials lie in fragments of 16 queries by 32 keys; a row is 16 queries
  int32 num_queries;  // of dbias, where a row is several: of planes, plane_rows()
  PackedRows packed;
  StoredTiles stored;  // of planes
};

}  // namespace attnjit::kernel
