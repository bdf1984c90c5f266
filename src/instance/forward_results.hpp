#pragma once
#include "attnjit/forward.hpp"
#include "reference/forward.hpp"

namespace attnjit::instance {

/// Writes out and lse of `call`, in host memory, as a forward would: from the rounded formulas, on
/// `jobs` threads. A backward takes them. The result that they come from.
reference::ForwardResult write_forward_results(const ForwardArgs& call, unsigned jobs);

}  // namespace attnjit::instance
