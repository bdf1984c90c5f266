#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "base/log.hpp"

namespace attnjit::runtime {

/// Warns of compiles that take long, so that silence does not look like a hang: a line once the
/// oldest runs for a second, and the next ten seconds later at the earliest, however many there
/// are. One thread looks at the clock, only while something is compiled. Thread-safe; a process
/// that was forked while a compile ran begins anew.
class CompileWatch {
 public:
  using Milliseconds = std::chrono::milliseconds;

  /// `log` must outlive it. The times are for tests.
  explicit CompileWatch(base::Log& log, Milliseconds first = std::chrono::seconds(1),
                        Milliseconds again = std::chrono::seconds(10));
  ~CompileWatch();
  CompileWatch(const CompileWatch&) = delete;
  CompileWatch& operator=(const CompileWatch&) = delete;

 private:
  struct State;

 public:
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
  State& state_of_this_process();

  base::Log& log_;
  const Milliseconds first_;
  const Milliseconds again_;
  std::atomic<State*> state_;
};

}  // namespace attnjit::runtime
