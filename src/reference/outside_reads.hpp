#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "attnjit/forward.hpp"
#include "reference/pair_expression.hpp"

namespace attnjit::reference {

/// A read of an operand whose index lies outside of its axis, where the nearest element is taken.
struct OutsideRead {
  Pair pair;  ///< that read; of packed sequences `batch` is the sequence
  std::string operand;
  int axis = 0;
  std::int64_t index = 0, size = 0;
};

/// The reads of the expressions of a call that lie outside, which are a mistake of the caller's.
struct OutsideReads {
  std::int64_t pairs = 0;            ///< of a row and a key that were looked at
  std::int64_t outside = 0;          ///< those among them with such a read
  std::optional<OutsideRead> first;  ///< one of these
};

/// Looks at the pairs for which the call reads operands: `keep` within causal, window and lengths,
/// `score` where the row keeps the key. At all of them, or at no more than about `most_pairs`, at
/// even distances and with the first and the last rows and keys. The call's memory is the host's.
OutsideReads outside_reads(const ForwardArgs& args, std::int64_t most_pairs);

}  // namespace attnjit::reference
