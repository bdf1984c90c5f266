#include "executor/mbarriers.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "executor/violation.hpp"

namespace attnjit::executor {
namespace {

std::string name_of(unsigned address) {
  return fmt::format("the mbarrier at {:+}",
                     static_cast<std::int64_t>(address) - SharedMemory::kBase);
}

}  // namespace

void Mbarriers::reset() {
  barriers_.clear();
  fences_.reset();
}

void Mbarriers::init(unsigned address, int arrivals) {
  if (arrivals < 1) {
    throw Violation(fmt::format("makes {} for {} arrivals", name_of(address), arrivals));
  }
  const int thread = threads_.running();
  shared_.make_barrier(thread, address);
  barriers_[address] = {
      .address = address,
      .maker = thread,
      .made = clocks_.now(thread),
      .agent = clocks_.add_agent(fmt::format("a tensor_load for {}", name_of(address))),
      .arrivals = arrivals};
}

void Mbarriers::arrive(unsigned address, int bytes) {
  Barrier& barrier = find(address);
  if (barrier.arrived == barrier.arrivals) {
    throw Violation(fmt::format("arrives at {}, whose phase {} has all of its {} arrivals",
                                name_of(address), barrier.phase, barrier.arrivals));
  }
  ++barrier.arrived;
  barrier.announced += bytes;
  clocks_.release(threads_.running(), barrier.arriving);
  advance(barrier);
}

void Mbarriers::wait(unsigned address, std::uint32_t parity) {
  Barrier& barrier = find(address);
  if (parity > 1) {
    throw Violation(
        fmt::format("waits for parity {} of {}; it is 0 or 1", parity, name_of(address)));
  }
  const int thread = threads_.running();
  if (barrier.phase % 2 != parity) return pass(barrier, thread);
  barrier.waiting.push_back(thread);
  threads_.wait();
}

void Mbarriers::land(unsigned address, unsigned to, std::span<const std::byte> bytes) {
  Barrier& barrier = barriers_.at(address);
  shared_.finish_load(to, bytes, barrier.agent, barrier.phase + 1);
  barrier.announced -= static_cast<std::int64_t>(bytes.size());
  advance(barrier);
}

std::string Mbarriers::describe() const {
  std::string text;
  for (const auto& [address, barrier] : barriers_) {
    if (barrier.waiting.empty()) continue;
    text += fmt::format("; barrier_wait: {}, phase {}: {} of {} arrivals", name_of(address),
                        barrier.phase, barrier.arrived, barrier.arrivals);
    if (barrier.announced > 0) {
      text += fmt::format(", {} bytes that never came", barrier.announced);
    }
    text += fmt::format(", {} threads wait, the first is {}", barrier.waiting.size(),
                        barrier.waiting.front());
  }
  return text;
}

Mbarriers::Barrier& Mbarriers::find(unsigned address) {
  const auto found = barriers_.find(address);
  if (found == barriers_.end()) {
    throw Violation(fmt::format("uses {}, which was never initialised", name_of(address)));
  }
  Barrier& barrier = found->second;
  const int thread = threads_.running();
  if (!fences_.covers(thread, barrier.maker, barrier.made, clocks_)) {
    throw Violation(fmt::format(
        "uses {}, which thread {} made: barrier_init_fence and a block_sync must come in between",
        name_of(address), barrier.maker));
  }
  return barrier;
}

// Ends the phase if nothing is missing any more.
void Mbarriers::advance(Barrier& barrier) {
  if (barrier.arrived < barrier.arrivals) return;
  if (barrier.announced < 0) {
    throw Violation(fmt::format("{}, phase {}: {} bytes landed that were not announced",
                                name_of(barrier.address), barrier.phase, -barrier.announced));
  }
  if (barrier.announced > 0) return;
  ++barrier.phase;
  barrier.arrived = 0;
  barrier.ended = barrier.arriving;
  for (const int thread : std::exchange(barrier.waiting, {})) {
    pass(barrier, thread);
    threads_.wake(thread);
  }
}

// `thread` sees all that came to the phases that have ended, from threads and by copies.
void Mbarriers::pass(const Barrier& barrier, int thread) {
  clocks_.acquire(thread, barrier.ended);
  clocks_.acquire(thread, barrier.agent, barrier.phase);
}

}  // namespace attnjit::executor
