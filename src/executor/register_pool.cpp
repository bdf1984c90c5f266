#include "executor/register_pool.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "executor/violation.hpp"

namespace attnjit::executor {
namespace {

constexpr int kRegisters = 65536;  // of a multiprocessor
constexpr int kMin = 24, kMax = 240, kStep = 8;

}  // namespace

RegisterPool::RegisterPool(Threads& threads, unsigned min_blocks)
    : threads_(threads),
      launched_(std::min(
          kRegisters / (threads.count() * static_cast<int>(min_blocks)) / kStep * kStep, kMax)) {
  reset();
}

void RegisterPool::reset() {
  counts_.assign((threads_.count() + kThreads - 1) / kThreads, launched_);
  left_ = 0;
  waiting_.clear();
}

void RegisterPool::give(int warpgroup, int count) {
  check(warpgroup, count, true);
  left_ += counts_[warpgroup] - count;
  counts_[warpgroup] = count;
  for (const Taker& taker : waiting_) {
    if (can_take(taker.warpgroup, taker.count)) threads_.wake(taker.thread);
  }
}

void RegisterPool::take(int warpgroup, int count) {
  check(warpgroup, count, false);
  while (!can_take(warpgroup, count)) {
    waiting_.push_back({warpgroup, count, threads_.running()});
    threads_.wait();
    std::erase_if(waiting_, [&](const Taker& taker) { return taker.warpgroup == warpgroup; });
  }
  left_ -= count - counts_[warpgroup];
  counts_[warpgroup] = count;
}

std::string RegisterPool::describe() const {
  std::string text;
  for (const Taker& taker : waiting_) {
    text += fmt::format("; take_registers: warpgroup {} waits for {} more a thread, {} are left",
                        taker.warpgroup, taker.count - counts_[taker.warpgroup], left_);
  }
  return text;
}

void RegisterPool::check(int warpgroup, int count, bool gives) const {
  const char* const verb = gives ? "gives registers down to" : "takes registers up to";
  if (count < kMin || count > kMax || count % kStep != 0) {
    throw Violation(fmt::format("{} {}; a multiple of 8 from 24 to 240 is wanted", verb, count));
  }
  const int has = counts_[warpgroup];
  if (gives ? count > has : count < has) {
    throw Violation(fmt::format("{} {}, and each thread has {}", verb, count, has));
  }
}

bool RegisterPool::can_take(int warpgroup, int count) const {
  return count - counts_[warpgroup] <= left_;
}

}  // namespace attnjit::executor
