#include "executor/threads.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "executor/violation.hpp"

namespace attnjit::executor {

Threads::Threads(int count, std::function<void()> body) : body_(std::move(body)), threads_(count) {
  for (int t = 0; t < count; ++t) {
    threads_[t].fiber = std::make_unique<Fiber>([this, t] { this->body(t); });
  }
}

void Threads::begin() {
  for (Thread& thread : threads_) {
    thread.state = State::kReady;
    thread.function = "the kernel";
  }
}

bool Threads::run() {
  progress_ = false;
  for (bool moved = true; moved;) {
    moved = false;
    for (int warp = 0; warp < count() / kWarpSize; ++warp) {
      while (run_warp(warp)) moved = true;
    }
  }
  return progress_;
}

bool Threads::are_away() const {
  return std::ranges::any_of(threads_,
                             [](const Thread& thread) { return thread.state == State::kAway; });
}

void Threads::call_back() {
  for (Thread& thread : threads_) {
    if (thread.state != State::kAway) continue;
    thread.state = State::kReady;
    thread.looks = true;
  }
}

bool Threads::have_ended() const {
  return std::ranges::all_of(threads_,
                             [](const Thread& thread) { return thread.state == State::kEnded; });
}

void Threads::wait() {
  Thread& self = threads_[running_];
  self.state = State::kWaiting;
  self.fiber->suspend();
}

void Threads::go_away() {
  Thread& self = threads_[running_];
  self.state = State::kAway;
  self.fiber->suspend();
}

// Resumes each thread of the warp that can go on; false where none can.
bool Threads::run_warp(int warp) {
  bool moved = false;
  for (int t = warp * kWarpSize; t < (warp + 1) * kWarpSize; ++t) {
    if (threads_[t].state != State::kReady) continue;
    moved = true;
    running_ = t;
    const bool looked = std::exchange(threads_[t].looks, false);
    threads_[t].fiber->resume();
    progress_ |= !looked || threads_[t].state != State::kAway;
    if (!violation_.empty()) throw ThreadViolation(violation_);
  }
  return moved;
}

void Threads::body(int thread) {
  Thread& self = threads_[thread];
  try {
    body_();
  } catch (const Violation& violation) {
    violation_ = fmt::format("thread {}, {}: {}", thread, self.function, violation.what());
  }
  self.state = State::kEnded;
}

}  // namespace attnjit::executor
