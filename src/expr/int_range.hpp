#pragma once
#include "expr/interval.hpp"

namespace attnjit::expr {

/// The smallest range that holds both.
IntRange hull(IntRange a, IntRange b);

/// A range of the results of an operation over ints of these ranges.
IntRange apply_range(Op op, std::span<const IntRange> args);

/// The range of int() of floats.
IntRange int_range_of(const FloatRange& floats);

}  // namespace attnjit::expr
