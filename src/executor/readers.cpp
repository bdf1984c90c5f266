#include "executor/readers.hpp"

#include <algorithm>

namespace attnjit::executor {

bool is_ordered(const Clocks& clocks, const Stamp& stamp, int thread) {
  const bool own = stamp.agent == thread;
  return clocks.has_seen(thread, stamp.agent, stamp.time + (own && stamp.warp ? 1 : 0));
}

int Readers::add(int set, const Stamp& stamp, int thread, const Clocks& clocks) {
  if (set == last_set_ && stamp == last_stamp_) return last_result_;
  last_set_ = set;
  last_stamp_ = stamp;
  std::vector<Stamp> kept;
  for (const Stamp& old : of(set)) {
    if (old == stamp) return last_result_ = set;
    // An agent that is no thread does its work in order.
    const bool before = old.agent == stamp.agent && old.agent >= clocks.threads();
    if (!before && !is_ordered(clocks, old, thread)) kept.push_back(old);
  }
  const auto [known, is_new] = known_.try_emplace({kept.empty() ? kNone : set, stamp});
  if (is_new) {
    known->second = first_ + static_cast<int>(sets_.size());
    kept.push_back(stamp);
    sets_.push_back(std::move(kept));
  }
  return last_result_ = known->second;
}

std::span<const Stamp> Readers::of(int set) const {
  if (set < first_) return {};
  return sets_[static_cast<std::size_t>(set - first_)];
}

void Readers::forget() {
  first_ += static_cast<int>(sets_.size());
  sets_.clear();
  known_.clear();
  last_set_ = -1;
}

}  // namespace attnjit::executor
