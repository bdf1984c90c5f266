#include "executor/clocks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace attnjit::executor {

Clocks::Clocks(int threads) : clocks_(threads) { reset(); }

void Clocks::reset() {
  names_.clear();
  for (int t = 0; t < threads(); ++t) {
    clocks_[t].assign(clocks_.size(), 0);
    clocks_[t][t] = 1;  // 0: never
  }
}

int Clocks::add_agent(std::string name) {
  names_.push_back(std::move(name));
  for (Clock& clock : clocks_) clock.push_back(0);
  return threads() + static_cast<int>(names_.size()) - 1;
}

std::string Clocks::name(int agent) const {
  return agent < threads() ? fmt::format("thread {}", agent) : names_[agent - threads()];
}

bool Clocks::is_seen(int agent, std::uint32_t time) const {
  return std::ranges::any_of(clocks_, [&](const Clock& clock) { return clock[agent] >= time; });
}

void Clocks::release(int thread, Clock& to) {
  join(to, clocks_[thread]);
  tick(thread);
}

void Clocks::acquire(int thread, const Clock& from) { join(clocks_[thread], from); }

void Clocks::acquire(int thread, int agent, std::uint32_t time) {
  std::uint32_t& seen = clocks_[thread][agent];
  seen = std::max(seen, time);
}

void Clocks::meet(int first, int count) {
  Clock all;
  for (int t = first; t < first + count; ++t) join(all, clocks_[t]);
  for (int t = first; t < first + count; ++t) {
    clocks_[t] = all;
    tick(t);
  }
}

void Clocks::join(Clock& to, const Clock& from) {
  if (to.size() < from.size()) to.resize(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) to[i] = std::max(to[i], from[i]);
}

void Fences::reset() {
  for (auto& times : times_) times.clear();
}

bool Fences::covers(int thread, int by, std::uint32_t done, const Clocks& clocks) const {
  const std::vector<std::uint32_t>& times = times_[by];
  const auto later = std::ranges::upper_bound(times, clocks.seen(thread, by));
  return later != times.begin() && *std::prev(later) > done;
}

}  // namespace attnjit::executor
