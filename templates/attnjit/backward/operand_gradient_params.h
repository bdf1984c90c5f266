#pragma once
#include "attnjit/score/expression_params.h"
#include "attnjit/types.h"

namespace attnjit::kernel {

// Neighbours in a list of sums that share a range of elements: a warp reads them at once.
inline constexpr int kListChunk = 32;

// The place of what one read of an operand adds to the operand's gradient. Elements of the
// gradient are numbered as they follow one another in a dense tensor.
//
// Lists hold sums and the elements that they belong to, -1 for none, which all shares have in
// common:
//
//   values    [share][plane][line of tiles][entry]
//   elements  [plane][line of tiles][entry]
//   ranges    [plane][line of tiles][entry / kListChunk], of the elements; the first is above the
//             last where a chunk has none
//
// Otherwise `elements` is null, and each sum lies at its element.
struct OperandGradientParams {
  int32 batches, heads;  // planes, which several batch elements or heads may share
  int32 shares;          // thread blocks that share out the batch elements and heads of a plane
  int32 num_lines;       // of tiles, of a plane
  float* values;
  int32* elements;
  IntRange* ranges;
  int64 share_stride;  // of `values`
  // Of sums of pairs, in elements; those of axes that the operand lacks are 0.
  int64 batch_stride, head_stride, query_stride, key_stride;
  int64 first_element;          // of pair 0
  int32 num_queries, num_keys;  // that they have
};

}  // namespace attnjit::kernel
