#pragma once
#include <cstdint>
#include <vector>

#include "attnjit/forward.hpp"

namespace attnjit::instance {

/// Overwrites K and V (host memory) with NaN and infinities at every key of a (batch, kv head) that
/// no row keeps because of seqlens, causal, window or a mask that is the same for all rows: what a
/// result must never show. Overwrites a bias, unless sequences are packed or keys paged, at every
/// row to which causal, window and seqlens leave no key in any batch element and head that has it.
void poison_unread_inputs(const ForwardArgs& args);

/// Overwrites dout [B, Hq, Lq, Dv] with NaN and infinities at every row that is `dead` [B, Hq, Lq],
/// and dlse [B, Hq, Lq], if not null, at every row whose `lse` is -inf: those of other dead rows go
/// to dsink. A dout whose rows share memory is left as it is.
void poison_dead_rows(const std::vector<std::uint8_t>& dead, const float* lse, const Tensor& dout,
                      float* dlse);

}  // namespace attnjit::instance
