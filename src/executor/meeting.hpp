#pragma once
#include <string>
#include <vector>

#include "executor/threads.hpp"

namespace attnjit::executor {

/// A collective operation of neighbouring threads: none goes on until all have come.
class Meeting {
 public:
  /// Of the threads from `first` to `first` + `count` - 1.
  Meeting(Threads& threads, int first, int count)
      : threads_(threads), first_(first), members_(count) {}

  int first() const { return first_; }
  int count() const { return static_cast<int>(members_.size()); }
  /// All but one have come.
  bool lacks_one() const { return arrived_ + 1 == count(); }

  /// The running thread comes to `function` with `member`. The last to arrive calls
  /// operate(members, count) and goes on; the others go on when their turn comes. Throws Violation
  /// where the others wait in another function.
  template <class Operation>
  void meet(const char* function, void* member, Operation operate) {
    if (!arrive(function, member)) return;
    operate(members_.data(), count());
    leave();
  }

  /// For the report of a deadlock: who waits, and a thread that is missing. Empty where none
  /// waits.
  std::string describe() const;

 private:
  bool arrive(const char* function, void* member);
  void leave();

  Threads& threads_;
  const int first_;
  std::vector<void*> members_;
  int arrived_ = 0;
  const char* function_ = "";
};

}  // namespace attnjit::executor
