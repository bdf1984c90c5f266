#pragma once
// Rules for the order of planes over the batch. As checks.hpp.
#include "problem/checks.hpp"

namespace attnjit::problem::checks {

inline void expect_no_order(const char* what, const PlaneOrder& order) {
  const bool inner = order.inner != 0;
  if (!inner && order.cycle == 0) return;
  reject("{}_{}: {} without a {} of several planes over the batch; expected 0", what,
         inner ? "inner" : "cycle", inner ? order.inner : order.cycle, what);
}

/// The cycle of `planes` planes that divide the batch of `p`. `what` is the operand's name, or
/// prepared_mask for that of the mask.
inline BatchCycle checked_cycle(const char* what, std::int64_t planes, const PlaneOrder& order,
                                const Problem& p) {
  if (order.inner == 0 && order.cycle == 0) return {};
  const char* const name = what[0] == 'b' ? "bias" : "mask";
  if (planes <= 1) expect_no_order(name, order);
  if (order.inner == 0)
    reject("{}_cycle: {} without {}_inner; expected 0", name, order.cycle, name);
  const std::int64_t most = p.batch / planes;
  if (order.inner < 0 || (most % order.inner) != 0) {
    reject("{}_inner: {}; expected a divisor of {}, which is {} by the {} planes of the {}, or 0",
           name, order.inner, most, p.packed ? "sequences" : "the batch of q", planes, name);
  }
  const std::int64_t cycle = order.cycle == 0 ? planes : order.cycle;
  if (cycle < 0 || planes % cycle != 0) {
    reject("{}_cycle: {}; expected a divisor of the {} planes of the {}, or 0", name, cycle, planes,
           name);
  }
  // One plane after another, or all runs of a plane beside each other: neighbours share it.
  const std::int64_t runs = most / order.inner;
  if (cycle == 1 || runs <= 1) return {};
  return {static_cast<std::int32_t>(cycle), static_cast<std::int32_t>(cycle * runs)};
}

}  // namespace attnjit::problem::checks
