#include "executor/thread_block.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "executor/violation.hpp"

namespace attnjit::executor {

thread_local ThreadBlock* ThreadBlock::current_ = nullptr;

ThreadBlock::ThreadBlock(const Launch& launch, GlobalMemory& memory)
    : launch_(launch),
      memory_(memory),
      threads_(static_cast<int>(launch.threads), [this] { launch_.kernel(launch_.parameters); }),
      clocks_(threads_.count()),
      shared_(launch.shared_bytes, clocks_),
      block_(threads_, 0, threads_.count()),
      named_barriers_(threads_, clocks_),
      mbarriers_(threads_, clocks_, shared_),
      tensor_copies_(mbarriers_, shared_, memory, threads_.count()),
      registers_(threads_, launch.min_blocks),
      copies_(launch.threads) {
  const int count = threads_.count();
  for (int first = 0; first < count; first += Threads::kWarpSize) {
    warps_.emplace_back(threads_, first, Threads::kWarpSize);
  }
  for (int first = 0; first < count; first += kWarpgroupSize) {
    warpgroups_.emplace_back(threads_, first, std::min(kWarpgroupSize, count - first));
    products_.emplace_back(first, clocks_, shared_);
  }
}

ThreadBlock::Progress ThreadBlock::go_on() {
  struct Current {
    explicit Current(ThreadBlock* block) { current_ = block; }
    ~Current() { current_ = nullptr; }
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;
  };
  const Current scope(this);
  const std::string place = fmt::format("{}, block {}", launch_.entry, index_);
  try {
    return run_threads();
  } catch (const ThreadViolation& violation) {
    throw Violation(fmt::format("{}, {}", place, violation.what()));
  } catch (const Violation& violation) {
    throw Violation(fmt::format("{}: {}", place, violation.what()));
  }
}

void ThreadBlock::begin(unsigned index) {
  index_ = index;
  threads_.begin();
  clocks_.reset();
  shared_.reset();
  named_barriers_.reset();
  mbarriers_.reset();
  tensor_copies_.reset();
  registers_.reset();
  for (AsyncCopies& copies : copies_) copies.reset();
  waited_.assign(copies_.size(), false);
  for (MatrixProducts& products : products_) products.reset();
}

// Loads of tensors are done where no thread can go on without them.
ThreadBlock::Progress ThreadBlock::run_threads() {
  bool moved = false;
  threads_.call_back();
  do {
    moved |= threads_.run();
  } while (!threads_.have_ended() && tensor_copies_.land());
  if (threads_.are_away()) return moved ? Progress::kMoved : Progress::kWaits;
  if (!threads_.have_ended()) throw Violation(describe_standstill());
  tensor_copies_.finish();
  for (const MatrixProducts& products : products_) products.check_done();
  return Progress::kEnded;
}

// The report of a deadlock: each operation that threads wait in, and what it lacks.
std::string ThreadBlock::describe_standstill() const {
  std::string text = "deadlock" + block_.describe();
  for (const Meeting& warpgroup : warpgroups_) text += warpgroup.describe();
  for (const Meeting& warp : warps_) text += warp.describe();
  return text + named_barriers_.describe() + mbarriers_.describe() + registers_.describe();
}

}  // namespace attnjit::executor
