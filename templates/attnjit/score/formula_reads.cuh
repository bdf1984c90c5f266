#pragma once
#include "attnjit/ptx/memory.cuh"
#include "attnjit/score/block.cuh"
#include "attnjit/score/expression_params.h"
#include "attnjit/score/formula_values.cuh"
#include "attnjit/score/score_shape.h"

// The leaves of expressions: indices, and elements of operands. An index that is outside
// of its axis reads the element at the nearest end.
namespace attnjit::kernel::formula {

// The indices that all scores of a block share, or of a line with pack_gqa.
struct Place {
  int b, h, g, off, Lq, Lk, row_offset, key_offset;
};

template <ScoreShape kShape, class Params>
ATTNJIT_DEVICE Place place_of(const Params& params, const Block& block) {
  const int diagonal = params.bottom_right ? block.bottom_right() : 0;
  return {.b = block.batch,
          .h = block.head,
          .g = block.head / kShape.gqa_ratio,
          .off = params.offset + diagonal,
          .Lq = block.query_len + block.dropped_queries,
          .Lk = block.kv_len + block.dropped_keys,
          .row_offset = params.row_offset,
          .key_offset = params.key_offset};
}

// An index that is known not to be below 0.
template <class Int>
struct Natural {
  Int value;
};
template <class Int>
ATTNJIT_DEVICE Natural<Int> natural(Int index) {
  return {index};
}

// The place that is read. Unsigned, for then its product with a stride takes two instructions.
template <class Int>
ATTNJIT_DEVICE uint32 inside(Int index, int size) {
  return static_cast<uint32>(clamped<Int>(index, 0, size - 1));
}
template <class Int>
ATTNJIT_DEVICE uint32 inside(Natural<Int> index, int size) {
  return static_cast<uint32>(smaller<Int>(index.value, size - 1));
}

// The address of an element. Axes are added one by one, so that those which a loop does not change
// are added ahead of it.
template <class T, class... Indices>
ATTNJIT_DEVICE const T* element(const ExpressionOperand& operand, Indices... indices) {
  const auto* address = static_cast<const uint8*>(operand.data);
  int axis = 0;
  ((address += inside(indices, operand.sizes[axis]) * operand.strides[axis], ++axis), ...);
  return reinterpret_cast<const T*>(address);
}

// The number of an element in a dense tensor of that shape.
template <class... Indices>
ATTNJIT_DEVICE int element_number(const ExpressionOperand& operand, Indices... indices) {
  uint32 number = 0;
  int axis = 0;
  ((number =
        static_cast<uint32>(operand.sizes[axis]) * number + inside(indices, operand.sizes[axis]),
    ++axis),
   ...);
  return static_cast<int>(number);
}

template <class... Indices>
ATTNJIT_DEVICE float read_fp32(const ExpressionOperand& operand, Indices... indices) {
  return ptx::load_global(element<float>(operand, indices...));
}
template <class... Indices>
ATTNJIT_DEVICE float read_fp16(const ExpressionOperand& operand, Indices... indices) {
  return ptx::widen<DType::kFloat16>(ptx::load_global(element<uint16>(operand, indices...)));
}
template <class... Indices>
ATTNJIT_DEVICE float read_bf16(const ExpressionOperand& operand, Indices... indices) {
  return ptx::widen<DType::kBFloat16>(ptx::load_global(element<uint16>(operand, indices...)));
}
template <class... Indices>
ATTNJIT_DEVICE int read_int32(const ExpressionOperand& operand, Indices... indices) {
  return ptx::load_global(element<int>(operand, indices...));
}
template <class... Indices>
ATTNJIT_DEVICE bool read_bool(const ExpressionOperand& operand, Indices... indices) {
  return ptx::load_global(element<uint8>(operand, indices...)) != 0;
}

// A row or a key where it is an index along the ranged axis: `distance` behind `first`, which a
// thread's rows or keys of a tile share. The compiler knows the distance. quads: `first` is a
// multiple of 4, and the thread has all four of such neighbours.
struct Along {
  int first, distance;
  bool quads = false;
};

// A row or a key over 2^kBits, 4 bits or more. Threads hold rows and keys so that no sum of first
// and distance carries out of the lower 4 bits (tile/key_order.h): those of neighbours are equal
// texts to the compiler, which then reads an element by such places once.
template <int kBits>
ATTNJIT_DEVICE int block_of(Along along) {
  static_assert(kBits >= 4);
  return ((along.first & ~15) + (along.distance & ~15)) >> kBits;
}
struct LinePlace {
  int64 line = 0;
  Along along = {0, 0, false};

  ATTNJIT_DEVICE void add(int64 index, int size) { line = line * size + inside(index, size); }
  ATTNJIT_DEVICE void add(Along index, int) { along = index; }
};

// An element in the lines of an operand: addresses of a thread's rows or keys differ by constants.
template <class... Indices>
ATTNJIT_DEVICE int line_int32(const ExpressionOperand& operand, Indices... indices) {
  LinePlace place;
  int axis = 0;
  (place.add(indices, operand.sizes[axis++]), ...);
  const int32* first = operand.lines + (place.line * operand.length + place.along.first);
  const int distance = place.along.distance;
  if (place.along.quads) return ptx::load_quad(first + (distance & ~3)).word[distance & 3];
  return ptx::load_global(first + distance);
}
template <class... Indices>
ATTNJIT_DEVICE bool line_bool(const ExpressionOperand& operand, Indices... indices) {
  return line_int32(operand, indices...) != 0;
}

}  // namespace attnjit::kernel::formula
