#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace attnjit::executor {

/// A time of each agent: what somebody has seen of the others, all that they did up to then.
using Clock = std::vector<std::uint32_t>;

/// Who happened before whom. Agents are the threads of a block, 0 and up, and behind them what
/// works beside the threads: each has a time of its own, and each thread a clock of all. What an
/// agent did at a time is ordered before what a thread does whose clock has seen that time.
class Clocks {
 public:
  explicit Clocks(int threads);

  /// For a new thread block: no agent has seen another, and threads are the only agents.
  void reset();
  /// Adds an agent and returns it; `name` is for reports.
  int add_agent(std::string name);
  /// "thread 5", or the name given.
  std::string name(int agent) const;

  int threads() const { return static_cast<int>(clocks_.size()); }
  bool only_threads() const { return names_.empty(); }
  std::uint32_t now(int thread) const { return clocks_[thread][thread]; }
  std::uint32_t seen(int thread, int agent) const { return clocks_[thread][agent]; }
  bool has_seen(int thread, int agent, std::uint32_t time) const {
    return clocks_[thread][agent] >= time;
  }

  /// Whether any thread has.
  bool is_seen(int agent, std::uint32_t time) const;

  /// Begins the next time of `thread` and returns it.
  std::uint32_t tick(int thread) { return ++clocks_[thread][thread]; }
  /// Adds to `to` what `thread` did and has seen so far.
  void release(int thread, Clock& to);
  /// `thread` has seen what is in `from`.
  void acquire(int thread, const Clock& from);
  /// `thread` has seen what `agent` did up to `time`.
  void acquire(int thread, int agent, std::uint32_t time);
  /// `count` threads from `first` on have seen each other.
  void meet(int first, int count);

 private:
  static void join(Clock& to, const Clock& from);

  std::vector<Clock> clocks_;       // of the threads
  std::vector<std::string> names_;  // of the other agents
};

/// The times at which threads called a fence.
class Fences {
 public:
  explicit Fences(int threads) : times_(threads) {}

  void reset();
  /// `thread` calls it.
  void add(int thread, Clocks& clocks) { times_[thread].push_back(clocks.tick(thread)); }
  /// Whether `by` called it after its time `done`, and `thread` has seen that.
  bool covers(int thread, int by, std::uint32_t done, const Clocks& clocks) const;

 private:
  std::vector<std::vector<std::uint32_t>> times_;  // rising
};

}  // namespace attnjit::executor
