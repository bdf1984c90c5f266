// Thread blocks that wait for each other, of plain functions that call the services as primitives
// do.
#include "executor/residents.hpp"

#include <numeric>

#include "block.hpp"

namespace attnjit::executor::residents_test {
namespace {

struct Counts {
  int taken = 0, turn = 0;
  std::vector<int> begun, in_order;  // numbers
};

/// Lets all blocks of `kernel` run, three at a time; the violation, or "".
std::string run(Kernel kernel, Counts& counts, unsigned blocks) {
  void* const parameters[] = {&counts};
  const Launch launch{"kernel", kernel, parameters, blocks, 32, 1024};
  GlobalMemory memory;
  memory.begin_kernel(false);
  std::atomic<unsigned> next = 0;
  Residents residents(launch, memory, next, 3);
  try {
    while (residents.go_on(true)) {
    }
  } catch (const Violation& violation) {
    return violation.what();
  }
  return "";
}

void take_turn(void* const* parameters) {
  Counts& counts = *static_cast<Counts*>(parameters[0]);
  if (thread() != 0) return;
  const int number = counts.taken++;
  call().let_blocks_ahead("take_count");
  counts.begun.push_back(number);
  while (counts.turn != number) call().let_blocks_ahead("await_count");
  counts.in_order.push_back(number);
  ++counts.turn;
}

TEST_CASE("blocks that have taken a number overtake each other, and wait for their turns") {
  Counts counts;
  CHECK(run(take_turn, counts, 7) == "");
  CHECK(std::vector(counts.begun.begin(), counts.begun.begin() + 3) == std::vector{2, 1, 0});
  std::vector<int> all(7);
  std::iota(all.begin(), all.end(), 0);
  CHECK(counts.in_order == all);
}

TEST_CASE("blocks that all wait are a deadlock") {
  Counts counts;
  counts.turn = -1;
  CHECK(run(take_turn, counts, 7) ==
        "kernel: deadlock; thread blocks wait for counts that no block increments");
  CHECK(counts.begun.size() == 3);
}

}  // namespace
}  // namespace attnjit::executor::residents_test
