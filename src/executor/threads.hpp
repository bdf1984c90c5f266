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
  /// kAway: waits for other thread blocks.
  enum class State { kReady, kWaiting, kAway, kEnded };

  static constexpr int kWarpSize = 32;

  /// Each of `count` threads, whole warps, calls `body`.
  Threads(int count, std::function<void()> body);

  /// Lets all threads begin anew; they must have ended.
  void begin();
  /// Runs threads until none can go on; true if one of them did more than to look whether it may.
  /// Throws ThreadViolation where one of them throws Violation; the object is of no further use
  /// then.
  bool run();
  bool have_ended() const;
  bool are_away() const;  ///< some of them
  /// Lets those that are away look again.
  void call_back();

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
  /// Waits until other thread blocks have had their chance, and call_back().
  void go_away();
  /// Has changed what other thread blocks may wait for, which is more than to look.
  void note_change() { progress_ = true; }

  void wake(int thread) { threads_[thread].state = State::kReady; }

 private:
  struct Thread {
    std::unique_ptr<Fiber> fiber;
    State state = State::kEnded;
    bool looks = false;  // has been called back
    const char* function = "";
  };

  void body(int thread);
  bool run_warp(int warp);

  const std::function<void()> body_;
  std::vector<Thread> threads_;
  int running_ = 0;
  bool progress_ = false;  // see run()
  std::string violation_;  // of the thread that broke a rule
};

}  // namespace attnjit::executor
