#pragma once
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "base/log.hpp"
#include "base/per_process.hpp"

namespace attnjit::runtime {

/// Tells of compiles and tunings that take long, so that silence does not look like a hang: a
/// warning once the oldest runs for a second, and the next ten seconds later at the earliest,
/// however many there are; on a terminal progress in their place, every second. One thread looks at
/// the clock, only while there is something. Thread-safe; a process that was forked while a compile
/// ran begins anew.
class CompileWatch {
  struct State;

 public:
  using Milliseconds = std::chrono::milliseconds;

  /// `log` must outlive it. The times are for tests.
  explicit CompileWatch(base::Log& log, Milliseconds first = std::chrono::seconds(1),
                        Milliseconds again = std::chrono::seconds(10))
      : log_(log), first_(first), again_(again) {}

  /// Waits until the thread has left the log's sink, where nothing is compiled any more.
  void stop();

  /// A compile or tuning, while it lives; `what` as in "compiling kernel [...]". The watch outlives
  /// it.
  class Running {
   public:
    Running(CompileWatch& watch, std::string what);
    ~Running();
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

   private:
    State& state_;
    const std::uint64_t number_;
  };

 private:
  using Clock = std::chrono::steady_clock;

  struct Compile {
    std::string what;
    Clock::time_point begin;
  };

  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::map<std::uint64_t, Compile> running;  // by number, which is the order of their beginning
    std::uint64_t next_number = 0;
    Clock::time_point next_notice{};
    bool watched = false;
    std::jthread thread;  // has left watch(), or is about to, when `watched` is false
  };

  std::uint64_t add(State& state, std::string what);
  void start(State& state);
  void watch(State& state);

  base::Log& log_;
  const Milliseconds first_;
  const Milliseconds again_;
  base::PerProcess<State> state_;
};

}  // namespace attnjit::runtime
