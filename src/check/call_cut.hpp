#pragma once
#include <cstdint>
#include <optional>

#include "dump/host_call.hpp"

namespace attnjit::check {

/// Numbers from `begin` to before `end`.
struct Range {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
};

/// The part of a call that is left: kv heads with query heads of their groups, all of them unless
/// one kv head is left. Of packed sequences `batch` is those, and the call that is left has one and
/// is not packed; its rows and keys are the sequence's.
struct CallCut {
  Range batch, heads_kv, group, rows, keys;
};

/// All of `args`.
CallCut whole(const ForwardArgs& args);

/// The call that `cut` leaves of `call`, in memory of its own: inputs are copied, and a backward's
/// out and lse are computed anew on `jobs` threads. The diagonal stays where it was, as far as
/// lengths of sequences let it. nullopt where the call cannot be cut so: a prepared mask is none, a
/// mask over the last keys keeps its rows, pages are cut at the end alone, and of packed sequences
/// one is left.
std::optional<dump::HostCall> cut_call(const dump::HostCall& call, const CallCut& cut,
                                       unsigned jobs);

}  // namespace attnjit::check
