#include "runtime/compile_watch.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace attnjit::runtime {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

struct CompileWatch::State {
  struct Compile {
    std::string what;
    Clock::time_point begin;
  };

  State(base::Log& its_log, Milliseconds its_first, Milliseconds its_again)
      : log(its_log), first(its_first), again(its_again) {}

  std::uint64_t add(std::string what) {
    const std::scoped_lock lock(mutex);
    running.emplace(next_number, Compile{std::move(what), Clock::now()});
    if (!watched) start();
    return next_number++;
  }

  void start() try {
    thread = std::jthread([this] { watch(); });
    watched = true;
  } catch (const std::system_error&) {
    // No thread is to be had: the compile goes on without its lines.
  }

  void remove(std::uint64_t number) {
    const std::scoped_lock lock(mutex);
    running.erase(number);
    if (running.empty()) changed.notify_one();
  }

  /// Until nothing is compiled.
  void watch() {
    std::unique_lock lock(mutex);
    while (!running.empty()) {
      const Clock::time_point due = std::max(running.begin()->second.begin + first, next_notice);
      if (Clock::now() < due) {
        changed.wait_until(lock, due);
        continue;
      }
      next_notice = Clock::now() + again;
      const std::string text = notice();
      lock.unlock();  // the log's sink may take its time
      log.warning("{}", text);
      lock.lock();
    }
    watched = false;
  }

  /// On the oldest, which began first and so has the lowest number.
  std::string notice() const {
    const auto& [what, begin] = running.begin()->second;
    const std::chrono::duration<double> time = Clock::now() - begin;
    const std::size_t others = running.size() - 1;
    return fmt::format("still compiling {} after {:.0f} s{}", what, time.count(),
                       others == 0 ? "" : fmt::format(", and {} more", others));
  }

  base::Log& log;
  const Milliseconds first;
  const Milliseconds again;
  const pid_t process = ::getpid();
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::uint64_t, Compile> running;  // by number, which is the order of their beginning
  std::uint64_t next_number = 0;
  Clock::time_point next_notice{};
  bool watched = false;
  std::jthread thread;  // has left watch(), or is about to, when `watched` is false
};

CompileWatch::CompileWatch(base::Log& log, Milliseconds first, Milliseconds again)
    : log_(log), first_(first), again_(again), state_(new State(log, first, again)) {}

CompileWatch::~CompileWatch() {
  State* const state = state_.load();
  if (state->process == ::getpid()) delete state;
}

// That of the process that this one was forked from is left alone: its thread is not here, and its
// mutex may be locked for good.
CompileWatch::State& CompileWatch::state_of_this_process() {
  State* state = state_.load();
  if (state->process == ::getpid()) return *state;
  auto fresh = std::make_unique<State>(log_, first_, again_);
  if (state_.compare_exchange_strong(state, fresh.get())) return *fresh.release();
  return *state;
}

CompileWatch::Running::Running(CompileWatch& watch, std::string what)
    : state_(watch.state_of_this_process()), number_(state_.add(std::move(what))) {}
CompileWatch::Running::~Running() { state_.remove(number_); }

}  // namespace attnjit::runtime
