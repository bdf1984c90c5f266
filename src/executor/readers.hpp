#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "executor/clocks.hpp"

namespace attnjit::executor {

/// A read: by whom and when.
struct Stamp {
  int agent = 0;
  std::uint32_t time = 0;
  bool warp = false;  ///< for the whole warp of the thread `agent`

  auto operator<=>(const Stamp&) const = default;
};

/// Whether `stamp` is ordered before what `thread` does now. A read for a warp is another thread's
/// too, so that the thread itself must have met others since.
bool is_ordered(const Clocks& clocks, const Stamp& stamp, int thread);

/// The sets of reads that words have seen since they were written. Words that were read alike share
/// a set, so that a word needs no more than its number.
class Readers {
 public:
  static constexpr int kNone = 0;  ///< the empty set

  /// `set` and `stamp`, less the reads that are ordered before it: what is ordered after `stamp`
  /// is ordered after these. `thread` is the one that made the read.
  int add(int set, const Stamp& stamp, int thread, const Clocks& clocks);
  std::span<const Stamp> of(int set) const;

  /// All sets so far are empty: everybody has met.
  void forget();

 private:
  int first_ = kNone + 1;  // the number of sets_[0]
  std::vector<std::vector<Stamp>> sets_;
  std::map<std::tuple<int, Stamp>, int> known_;  // what add() made of a set and a stamp
  // The last call of add().
  int last_set_ = -1;
  Stamp last_stamp_;
  int last_result_ = kNone;
};

}  // namespace attnjit::executor
