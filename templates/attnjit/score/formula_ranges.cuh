#pragma once
#include "attnjit/ptx/device.cuh"
#include "attnjit/score/formula_reads.cuh"
#include "attnjit/score/formula_values.cuh"
#include "attnjit/types.h"

// The operations of expressions over ranges of ints (R. E. Moore, Interval Analysis, 1966), as
// src/expr/int_range.cpp has them. No result may wrap: the host renders no operation that could.
namespace attnjit::kernel::formula {

// Ints first <= x <= last.
struct Span {
  int64 first, last;

  ATTNJIT_DEVICE Span(int64 from, int64 to) : first(from), last(to) {}
  ATTNJIT_DEVICE Span(int64 x) : first(x), last(x) {}
  ATTNJIT_DEVICE bool contains(int64 x) const { return first <= x && x <= last; }
};

// The values that a bool may have.
struct Truth {
  bool may_fail, may_hold;

  ATTNJIT_DEVICE Truth(bool fails, bool holds) : may_fail(fails), may_hold(holds) {}
  ATTNJIT_DEVICE Truth(bool x) : may_fail(!x), may_hold(x) {}
  ATTNJIT_DEVICE static Truth unknown() { return {true, true}; }
};

ATTNJIT_DEVICE Truth operator!(Truth x) { return {x.may_hold, x.may_fail}; }
ATTNJIT_DEVICE Truth operator&(Truth x, Truth y) {
  return {x.may_fail || y.may_fail, x.may_hold && y.may_hold};
}
ATTNJIT_DEVICE Truth operator|(Truth x, Truth y) { return !(!x & !y); }
ATTNJIT_DEVICE Truth operator==(Truth x, Truth y) { return (x & y) | (!x & !y); }
ATTNJIT_DEVICE Truth operator!=(Truth x, Truth y) { return !(x == y); }

ATTNJIT_DEVICE Truth operator<(Span x, Span y) { return {x.last >= y.first, x.first < y.last}; }
ATTNJIT_DEVICE Truth operator>(Span x, Span y) { return y < x; }
ATTNJIT_DEVICE Truth operator<=(Span x, Span y) { return !(y < x); }
ATTNJIT_DEVICE Truth operator>=(Span x, Span y) { return !(x < y); }
ATTNJIT_DEVICE Truth operator==(Span x, Span y) {
  const bool one = x.first == x.last && y.first == y.last && x.first == y.first;
  return {!one, x.first <= y.last && y.first <= x.last};
}
ATTNJIT_DEVICE Truth operator!=(Span x, Span y) { return !(x == y); }

ATTNJIT_DEVICE Span hull(Span x, Span y) {
  return {smaller(x.first, y.first), larger(x.last, y.last)};
}
ATTNJIT_DEVICE Span select(Truth condition, Span then, Span otherwise) {
  const Span both = hull(then, otherwise);
  const bool one = !condition.may_fail || !condition.may_hold;
  const Span side = condition.may_hold ? then : otherwise;
  return {one ? side.first : both.first, one ? side.last : both.last};
}
ATTNJIT_DEVICE Truth select(Truth condition, Truth then, Truth otherwise) {
  return (condition & then) | (!condition & otherwise);
}

ATTNJIT_DEVICE Span wide(Span x) { return x; }
ATTNJIT_DEVICE Span narrowed(Span x) { return x; }
ATTNJIT_DEVICE Span to_int(Truth x) { return {x.may_fail ? 0 : 1, x.may_hold ? 1 : 0}; }

ATTNJIT_DEVICE Span operator-(Span x) { return {-x.last, -x.first}; }
ATTNJIT_DEVICE Span operator+(Span x, Span y) { return {x.first + y.first, x.last + y.last}; }
ATTNJIT_DEVICE Span operator-(Span x, Span y) { return {x.first - y.last, x.last - y.first}; }
ATTNJIT_DEVICE Span smaller(Span x, Span y) {
  return {smaller(x.first, y.first), smaller(x.last, y.last)};
}
ATTNJIT_DEVICE Span larger(Span x, Span y) {
  return {larger(x.first, y.first), larger(x.last, y.last)};
}
ATTNJIT_DEVICE Span clamped(Span x, Span low, Span high) { return smaller(larger(x, low), high); }
ATTNJIT_DEVICE Span magnitude(Span x) {
  const bool has_zero = x.contains(0);
  const int64 one = magnitude(x.first), other = magnitude(x.last);
  return {has_zero ? 0 : smaller(one, other), larger(one, other)};
}

// The results of a function that is monotonic in each argument while the other stands.
template <class F>
ATTNJIT_DEVICE Span of_corners(Span x, Span y, F f) {
  const int64 a = f(x.first, y.first), b = f(x.first, y.last), c = f(x.last, y.first),
              d = f(x.last, y.last);
  return {smaller(smaller(a, b), smaller(c, d)), larger(larger(a, b), larger(c, d))};
}
ATTNJIT_DEVICE Span operator*(Span x, Span y) {
  return of_corners(x, y, [](int64 a, int64 b) { return a * b; });
}
ATTNJIT_DEVICE Span shifted_left(Span x, Span y) {
  return of_corners(x, y, [](int64 a, int64 n) { return shifted_left(a, n); });
}
ATTNJIT_DEVICE Span shifted_right(Span x, Span y) {
  return of_corners(x, y, [](int64 a, int64 n) { return shifted_right(a, n); });
}
// By one number.
ATTNJIT_DEVICE Span floor_quotient(Span x, int64 y) {
  const int64 a = floor_quotient(x.first, y), b = floor_quotient(x.last, y);
  return {smaller(a, b), larger(a, b)};
}
ATTNJIT_DEVICE Span floor_remainder(Span x, int64 y) {
  const bool one_turn = floor_quotient(x.first, y) == floor_quotient(x.last, y);
  const Span all = {y < 0 ? y + 1 : 0, y < 0 ? 0 : y - 1};
  return {one_turn ? floor_remainder(x.first, y) : all.first,
          one_turn ? floor_remainder(x.last, y) : all.last};
}

ATTNJIT_DEVICE IntRange load_range(const IntRange* range) {
  const int64 both = ptx::load_global(reinterpret_cast<const int64*>(range));
  return {static_cast<int32>(both), static_cast<int32>(both >> 32)};
}

// The place of a read with a span of indices along the ranged axis.
struct RangePlace {
  int64 plane = 0;
  Span along = 0;

  ATTNJIT_DEVICE void add(int64 index, int size) { plane = plane * size + inside(index, size); }
  ATTNJIT_DEVICE void add(Span index, int) { along = index; }
};

// The ints of an operand, one of whose indices is any of a span. Of a wide one nothing is known.
template <class... Indices>
ATTNJIT_DEVICE Span range_of(const ExpressionOperand& operand, Indices... indices) {
  constexpr int kMost = 4;
  RangePlace place;
  int axis = 0;
  (place.add(indices, operand.sizes[axis++]), ...);
  const Span along = clamped(place.along, 0, operand.length - 1);
  const int first = static_cast<int>(along.first) / kRangeElements;
  const int more = static_cast<int>(along.last) / kRangeElements - first;
  const IntRange* ranges = operand.ranges + place.plane * (operand.length / kRangeElements) + first;
  IntRange all = load_range(ranges);
#pragma unroll
  for (int n = 1; n < kMost; ++n) {
    const IntRange next = load_range(ranges + smaller(n, more));
    all = {smaller(all.first, next.first), larger(all.last, next.last)};
  }
  const bool is_known = more < kMost;
  return {is_known ? all.first : -2147483647 - 1, is_known ? all.last : 2147483647};
}
// The same of bools.
template <class... Indices>
ATTNJIT_DEVICE Truth truth_of(const ExpressionOperand& operand, Indices... indices) {
  const Span ints = range_of(operand, indices...);
  return {ints.first == 0, ints.last != 0};
}

// The place of a read at one corner of the spans of its indices.
struct Corner {
  const int bits;  // of each span: its last index, not its first
  int next = 0;
  bool is_narrow = true;  // whether the corners are all that the spans hold

  ATTNJIT_DEVICE uint32 of(int64 index, int size) { return inside(index, size); }
  ATTNJIT_DEVICE uint32 of(Span index, int size) {
    const uint32 first = inside(index.first, size), last = inside(index.last, size);
    is_narrow &= last - first <= 1;
    return (bits >> next++ & 1) != 0 ? last : first;
  }
};
template <class Index>
inline constexpr int kSpans = 0;
template <>
inline constexpr int kSpans<Span> = 1;

// The ints of an operand at indices that are spans, of two places each at most, as of blocks of
// rows and of keys. Of wider ones nothing is known.
template <class T, class... Indices>
ATTNJIT_DEVICE Span corners_of(const ExpressionOperand& operand, Indices... indices) {
  constexpr int kCorners = 1 << (0 + ... + kSpans<Indices>);
  Span all = {2147483647, -2147483647 - 1};
  bool is_known = true;
  // One after another, to save registers.
#pragma unroll 1
  for (int bits = 0; bits < kCorners; ++bits) {
    Corner corner = {bits};
    const auto* address = static_cast<const uint8*>(operand.data);
    int axis = 0;
    ((address += corner.of(indices, operand.sizes[axis]) * operand.strides[axis], ++axis), ...);
    const int element = ptx::load_global(reinterpret_cast<const T*>(address));
    all = {smaller<int64>(all.first, element), larger<int64>(all.last, element)};
    is_known &= corner.is_narrow;
  }
  return {is_known ? all.first : -2147483647 - 1, is_known ? all.last : 2147483647};
}
template <class... Indices>
ATTNJIT_DEVICE Span range_at(const ExpressionOperand& operand, Indices... indices) {
  return corners_of<int>(operand, indices...);
}
template <class... Indices>
ATTNJIT_DEVICE Truth truth_at(const ExpressionOperand& operand, Indices... indices) {
  const Span bytes = corners_of<uint8>(operand, indices...);
  return {bytes.first <= 0, bytes.last != 0};
}

// Takes what lies before `from`, or behind `to`, off `keys`; ends stay within them, so that they
// fit 32 bits.
ATTNJIT_DEVICE void keep_from(Span& keys, Span from) {
  keys.first = clamped(from.first, keys.first, keys.last + 1);
}
ATTNJIT_DEVICE void keep_to(Span& keys, Span to) {
  keys.last = clamped(to.last, keys.first - 1, keys.last);
}

}  // namespace attnjit::kernel::formula
