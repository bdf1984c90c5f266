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

/// Warns of compiles that take long, so that silence does not look like a hang: a line once the
/// oldest runs for a second, and the next ten seconds later at the earliest, however many there
/// are. One thread looks at the clock, only while something is compiled. Thread-safe; a process
/// that was forked while a compile ran begins anew.
class CompileWatch {
  struct State;

 public:
  using Milliseconds = std::chrono::milliseconds;

  /// `log` must outlive it. The times are for tests.
  explicit CompileWatch(base::Log& log, Milliseconds first = std::chrono::seconds(1),
                        Milliseconds again = std::chrono::seconds(10))
      : log_(log), first_(first), again_(again) {}

  /// A compile, while it lives. The watch outlives it.
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
