#pragma once
#include "expr/interval.hpp"

namespace attnjit::expr {

/// The smallest range that holds both.
FloatRange hull(const FloatRange& a, const FloatRange& b);

/// `x` with 0 besides, where it has numbers that kernels may read as such: those below 2^-126.
FloatRange flushed(const FloatRange& x);

/// A range of the results of an operation over floats of these ranges, rounded outward.
FloatRange apply_range(Op op, std::span<const FloatRange> args);

/// The range of float() of ints.
FloatRange float_range_of(IntRange ints);

}  // namespace attnjit::expr
