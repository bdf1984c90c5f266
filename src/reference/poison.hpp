#pragma once
#include "attnjit/forward.hpp"

namespace attnjit::reference {

/// Overwrites K and V (host memory) with NaN and infinities at every key of a (batch, kv head) that
/// no row keeps because of seqlens, causal, window or a mask that is the same for all rows: what a
/// result must never show.
void poison_unread_keys(const ForwardArgs& args);

}  // namespace attnjit::reference
