#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "executor/fiber.hpp"

namespace attnjit::executor {

/// The threads of a block as fibers, of which one runs at a time, on the calling thread: it runs
/// until it has to wait for others.
class Threads {
 public:
  enum class State { kReady, kWaiting, kEnded };

  static constexpr int kWarpSize = 32;

  /// Each of `count` threads, whole warps, calls `body`.
  Threads(int count, std::function<void()> body);

  /// Lets all threads begin anew; they must have ended.
  void begin();
  /// Runs threads until none can go on. Throws ThreadViolation where one of them throws Violation;
  /// the object is of no further use then.
  void run();
  bool have_ended() const;

  int count() const { return static_cast<int>(threads_.size()); }
  State state(int thread) const { return threads_[thread].state; }
  /// The primitive that `thread` called last.
  const char* function(int thread) const { return threads_[thread].function; }

  // Called by the thread that runs.

  int running() const { return running_; }
  /// Remembers that it calls the primitive `function`.
  void enter(const char* function) { threads_[running_].function = function; }
  /// Waits until somebody calls wake().
  void wait();

  void wake(int thread) { threads_[thread].state = State::kReady; }

 private:
  struct Thread {
    std::unique_ptr<Fiber> fiber;
    State state = State::kEnded;
    const char* function = "";
  };

  void body(int thread);
  bool run_warp(int warp);

  const std::function<void()> body_;
  std::vector<Thread> threads_;
  int running_ = 0;
  std::string violation_;  // of the thread that broke a rule
};

}  // namespace attnjit::executor
