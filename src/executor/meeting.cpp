#include "executor/meeting.hpp"

#include <fmt/format.h>

#include <cstring>

#include "executor/violation.hpp"

namespace attnjit::executor {

// True for the last, at once; false for the others, once the last has left.
bool Meeting::arrive(const char* function, void* member) {
  if (arrived_ > 0 && std::strcmp(function_, function) != 0) {
    throw Violation(
        fmt::format("meets threads that wait in {}: not all take the same way", function_));
  }
  function_ = function;
  members_[threads_.running() - first_] = member;
  if (++arrived_ < count()) {
    threads_.wait();
    return false;
  }
  arrived_ = 0;
  return true;
}

void Meeting::leave() {
  for (int t = first_; t < first_ + count(); ++t) threads_.wake(t);
}

std::string Meeting::describe() const {
  if (arrived_ == 0) return "";
  std::string text = fmt::format("; {}: {} of {} threads arrived", function_, arrived_, count());
  for (int t = first_; t < first_ + count(); ++t) {
    const bool waits = threads_.state(t) == Threads::State::kWaiting;
    if (waits && std::strcmp(threads_.function(t), function_) == 0) continue;
    return text + (waits ? fmt::format(", thread {} waits in {}", t, threads_.function(t))
                         : fmt::format(", thread {} has ended", t));
  }
  return text;
}

}  // namespace attnjit::executor
