#pragma once
#include <cstdint>
#include <vector>

namespace attnjit::reference {

/// Which query rows of every (batch, head) are computed and judged: all of them, or a sorted list,
/// since a full reference of a long problem takes hours.
struct Rows {
  bool all = true;
  std::vector<std::int64_t> list;  ///< ascending, without duplicates; read only if !all

  static Rows every() { return {}; }

  /// The rows named by `rows`, sorted and without duplicates.
  static Rows only(std::vector<std::int64_t> rows);

  /// About `count` rows of [0, seqlen_q): both ends, both sides of multiples of 64, and others
  /// drawn from `seed`. All rows when seqlen_q <= count.
  static Rows sample(std::int64_t seqlen_q, std::int64_t count, std::uint64_t seed);

  /// How many rows are selected of a problem with `seqlen_q` rows.
  std::int64_t count(std::int64_t seqlen_q) const {
    return all ? seqlen_q : static_cast<std::int64_t>(list.size());
  }

  /// The query index of selected row `position`.
  std::int64_t at(std::int64_t position) const {
    return all ? position : list[static_cast<std::size_t>(position)];
  }
};

}  // namespace attnjit::reference
