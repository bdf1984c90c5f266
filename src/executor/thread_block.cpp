#include "executor/thread_block.hpp"

#include <fmt/format.h>

#include <array>
#include <cstring>

#include "executor/violation.hpp"
#include "tensor/half.hpp"

namespace attnjit::executor {
namespace {

// The block that this thread is running: primitives are plain functions and find it here.
thread_local ThreadBlock* current = nullptr;

class Current {
 public:
  explicit Current(ThreadBlock* block) { current = block; }
  ~Current() { current = nullptr; }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
};

}  // namespace

ThreadBlock::ThreadBlock(const Launch& launch, GlobalMemory& memory)
    : launch_(launch), memory_(memory), shared_(launch.shared_bytes), threads_(launch.threads) {
  const int count = static_cast<int>(launch.threads);
  for (int t = 0; t < count; ++t) {
    threads_[static_cast<std::size_t>(t)].fiber = std::make_unique<Fiber>([this, t] { body(t); });
  }
  for (int first = 0; first < count; first += kWarpSize) {
    warps_.push_back({first, std::vector<void*>(kWarpSize)});
  }
  block_.members.resize(launch.threads);
}

void ThreadBlock::run(unsigned index) {
  const Current scope(this);
  begin(index);
  for (bool moved = true; moved;) {
    moved = false;
    for (int warp = 0; warp < static_cast<int>(warps_.size()); ++warp) {
      while (run_warp(warp)) moved = true;
    }
  }
  for (const Thread& thread : threads_) {
    if (thread.state != State::kEnded) {
      throw Violation(
          fmt::format("{}, block {}: {}", launch_.entry, index_, describe_standstill()));
    }
  }
}

void ThreadBlock::begin(unsigned index) {
  index_ = index;
  shared_.reset();
  for (Thread& thread : threads_) {
    thread.state = State::kReady;
    thread.open.clear();
    thread.groups.clear();
    thread.waited = false;
  }
}

// Resumes each thread of the warp that can go on; false where none can.
bool ThreadBlock::run_warp(int warp) {
  bool moved = false;
  for (int t = warp * kWarpSize; t < (warp + 1) * kWarpSize; ++t) {
    Thread& thread = threads_[static_cast<std::size_t>(t)];
    if (thread.state != State::kReady) continue;
    moved = true;
    running_ = t;
    thread.fiber->resume();
    if (!violation_.empty()) throw Violation(violation_);
  }
  return moved;
}

void ThreadBlock::body(int thread) {
  Thread& me = threads_[static_cast<std::size_t>(thread)];
  me.function = "the kernel";
  try {
    launch_.kernel(launch_.parameters);
  } catch (const Violation& violation) {
    violation_ = fmt::format("{}, block {}, thread {}, {}: {}", launch_.entry, index_, thread,
                             me.function, violation.what());
  }
  me.state = State::kEnded;
}

// The last to arrive does the work and goes on; the others go on when their turn comes.
void ThreadBlock::meet(Meeting& meeting, const char* function, void* member, Operate operate) {
  const int thread = running_;
  if (meeting.arrived > 0 && std::strcmp(meeting.function, function) != 0) {
    throw Violation(
        fmt::format("meets threads that wait in {}: not all take the same way", meeting.function));
  }
  meeting.function = function;
  meeting.members[static_cast<std::size_t>(thread - meeting.first)] = member;
  if (++meeting.arrived < static_cast<int>(meeting.members.size())) {
    self().state = State::kWaiting;
    self().fiber->suspend();
    return;
  }
  meeting.arrived = 0;
  operate(meeting.members.data(), static_cast<int>(meeting.members.size()));
  for (std::size_t i = 0; i < meeting.members.size(); ++i) {
    threads_[static_cast<std::size_t>(meeting.first) + i].state = State::kReady;
  }
}

void ThreadBlock::copy_wait(int pending) {
  auto& groups = self().groups;
  while (static_cast<int>(groups.size()) > pending) {
    for (const Copy& copy : groups.front()) {
      std::array<std::byte, 16> data{};
      if (copy.valid) std::memcpy(data.data(), copy.global, copy.bytes);
      shared_.finish_copy(running_, copy.shared, std::span(data).first(copy.bytes));
    }
    groups.pop_front();
  }
}

// The report of a deadlock: each operation that threads wait in, and a thread that it lacks.
std::string ThreadBlock::describe_standstill() const {
  std::string text = "deadlock";
  if (block_.arrived > 0) text += describe(block_);
  for (const Meeting& warp : warps_) {
    if (warp.arrived > 0) text += describe(warp);
  }
  return text;
}

std::string ThreadBlock::describe(const Meeting& meeting) const {
  const auto count = meeting.members.size();
  std::string text =
      fmt::format("; {}: {} of {} threads arrived", meeting.function, meeting.arrived, count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t t = static_cast<std::size_t>(meeting.first) + i;
    if (threads_[t].state == State::kWaiting &&
        std::strcmp(threads_[t].function, meeting.function) == 0) {
      continue;
    }
    const bool ended = threads_[t].state == State::kEnded;
    return text + (ended ? fmt::format(", thread {} has ended", t)
                         : fmt::format(", thread {} waits in {}", t, threads_[t].function));
  }
  return text;
}

const Services& ThreadBlock::services() {
  static constexpr Services kServices = {
      .thread_index = [] { return current->running_; },
      .block_index = [] { return current->index_; },
      .access_global =
          [](const void* address, unsigned bytes, GlobalAccess access, const char* function) {
            current->self().function = function;
            current->memory_.access(address, bytes, access, current->self().waited);
          },
      .load_shared =
          [](unsigned address, void* to, unsigned bytes, Reader reader, const char* function) {
            current->self().function = function;
            current->shared_.load(current->running_, address, {static_cast<std::byte*>(to), bytes},
                                  reader);
          },
      .store_shared =
          [](unsigned address, const void* from, unsigned bytes, const char* function) {
            current->self().function = function;
            current->shared_.store(current->running_, address,
                                   {static_cast<const std::byte*>(from), bytes});
          },
      .copy_async =
          [](unsigned shared, const void* global, unsigned bytes, bool valid,
             const char* function) {
            Thread& self = current->self();
            self.function = function;
            if (valid) current->memory_.access(global, bytes, GlobalAccess::kRead, self.waited);
            current->shared_.begin_copy(current->running_, shared, bytes);
            self.open.push_back({shared, static_cast<const std::byte*>(global), bytes, valid});
          },
      .copy_async_commit =
          [] {
            Thread& self = current->self();
            self.groups.push_back(std::move(self.open));
            self.open.clear();
          },
      .copy_async_wait = [](int pending) { current->copy_wait(pending); },
      .warp_collective =
          [](const char* function, void* lane, Operate operate) {
            current->self().function = function;
            const auto warp = static_cast<std::size_t>(current->running_ / kWarpSize);
            current->meet(current->warps_[warp], function, lane, operate);
          },
      .block_barrier =
          [](const char* function, void* thread, Operate operate) {
            current->self().function = function;
            Meeting& block = current->block_;
            const bool last = block.arrived + 1 == static_cast<int>(block.members.size());
            if (last) current->shared_.pass_barrier();
            current->meet(block, function, thread, operate);
          },
      .wait_for_previous_kernel = [] { current->self().waited = true; },
      .widen_float16 = [](unsigned short bits) { return tensor::widen_float16(bits); },
      .round_to_float16 = [](float value) -> unsigned short { return tensor::to_float16(value); },
  };
  return kServices;
}

}  // namespace attnjit::executor
