#pragma once
#include <unistd.h>

#include <atomic>
#include <memory>

namespace attnjit::base {

/// A pointer to state that belongs to one process. A fork() may copy it while another thread has it
/// locked or half changed, and that thread is not there to finish: a child that finds its parent's
/// state gets a fresh one, and leaves the other as it is, for good. Every access is a system call.
/// Thread-safe; what the state is guarded by is its own matter.
template <class T>
class PerProcess {
 public:
  PerProcess() : current_(new State(nullptr)) {}
  ~PerProcess() {
    State* const current = current_;
    if (current->process == ::getpid()) delete current;
  }
  PerProcess(const PerProcess&) = delete;
  PerProcess& operator=(const PerProcess&) = delete;

  T& operator*() const {
    State* current = current_;
    if (current->process == ::getpid()) return current->value;
    auto fresh = std::make_unique<State>(current);
    while (current->process != fresh->process) {
      if (current_.compare_exchange_weak(current, fresh.get())) return fresh.release()->value;
    }
    return current->value;  // another thread of this process was faster
  }
  T* operator->() const { return &**this; }

  /// Whether `predicate` held for the state of a process that this one descends from when that one
  /// forked. Only atomic members of such a state may be looked at.
  template <class Predicate>
  bool inherited(const Predicate& predicate) const {
    **this;
    for (const State* at = current_.load()->parent; at != nullptr; at = at->parent) {
      if (predicate(at->value)) return true;
    }
    return false;
  }

 private:
  struct State {
    explicit State(const State* its_parent) : parent(its_parent) {}

    const pid_t process = ::getpid();
    const State* const parent;
    T value{};
  };

  mutable std::atomic<State*> current_;
};

}  // namespace attnjit::base
