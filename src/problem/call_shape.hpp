#pragma once
#include <cstdint>

#include "attnjit/backward.hpp"

namespace attnjit::problem {

/// Whether two calls differ in addresses alone, which moreover are null alike and lie alike within
/// kAddressBytes: then make_problem() says the same of both.
bool same_shape(const ForwardArgs& a, const ForwardArgs& b);
bool same_shape(const BackwardArgs& a, const BackwardArgs& b);

/// The widest alignment of an address that a problem depends on.
inline constexpr std::uintptr_t kAddressBytes = 16;

/// A number for hash tables: calls of one shape have the same. It depends on this build and must
/// not be stored.
std::uint64_t shape_hash(const ForwardArgs& args);
std::uint64_t shape_hash(const BackwardArgs& args);

}  // namespace attnjit::problem
