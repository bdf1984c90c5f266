#include "executor/named_barriers.hpp"

#include <fmt/format.h>

#include <utility>

#include "executor/violation.hpp"

namespace attnjit::executor {

void NamedBarriers::arrive(int id, int count, bool waits) {
  check(id, count);
  Barrier& barrier = barriers_[id];
  const int self = threads_.running();
  barrier.count = count;
  clocks_.release(self, barrier.arriving);
  if (waits) barrier.waiting.push_back(self);
  const bool opens = ++barrier.arrived == count;
  if (opens) {
    for (const int thread : barrier.waiting) {
      clocks_.acquire(thread, barrier.arriving);
      threads_.wake(thread);
    }
    barrier = {};
  } else if (waits) {
    threads_.wait();
  }
}

std::string NamedBarriers::describe() const {
  std::string text;
  for (std::size_t id = 0; id < barriers_.size(); ++id) {
    const Barrier& barrier = barriers_[id];
    if (barrier.waiting.empty()) continue;
    text += fmt::format("; named barrier {}: {} of {} threads arrived, {} wait, the first is {}",
                        id, barrier.arrived, barrier.count, barrier.waiting.size(),
                        barrier.waiting.front());
  }
  return text;
}

void NamedBarriers::check(int id, int count) const {
  if (id < 1 || id > 15) {
    throw Violation(fmt::format("comes to named barrier {}; there are 1 to 15", id));
  }
  if (count < Threads::kWarpSize || count % Threads::kWarpSize != 0 || count > threads_.count()) {
    throw Violation(
        fmt::format("comes to named barrier {} for {} threads; the block has {}, and whole warps "
                    "come",
                    id, count, threads_.count()));
  }
  const Barrier& barrier = barriers_[id];
  if (barrier.arrived > 0 && barrier.count != count) {
    throw Violation(fmt::format("comes to named barrier {} for {} threads, others for {}", id,
                                count, barrier.count));
  }
}

}  // namespace attnjit::executor
