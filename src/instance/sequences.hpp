#pragma once
#include <cstdint>
#include <vector>

#include "instance/problem_spec.hpp"

namespace attnjit::instance {

/// Where the packed sequences of a spec begin, [batch + 1], as cu_seqlens_q or cu_seqlens_kv has
/// it: as given, or drawn at random. Random ones may leave rows past the last sequence.
struct PackedBegins {
  std::vector<std::int32_t> q, kv;
};
PackedBegins packed_begins(const ProblemSpec& spec);

/// Rows and keys of a sequence that masks and biases have: as given, or those of the longest.
struct OperandSizes {
  std::int64_t queries, keys;
};
OperandSizes operand_sizes(const ProblemSpec& spec);

}  // namespace attnjit::instance
