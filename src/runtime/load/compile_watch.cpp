#include "runtime/load/compile_watch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <utility>

namespace attnjit::runtime {

std::uint64_t CompileWatch::add(State& state, std::string what) {
  const std::scoped_lock lock(state.mutex);
  state.running.emplace(state.next_number, Compile{std::move(what), Clock::now()});
  if (!state.watched) start(state);
  return state.next_number++;
}

void CompileWatch::start(State& state) try {
  state.thread = std::jthread([this, &state] { watch(state); });
  state.watched = true;
} catch (const std::system_error&) {
  // No thread is to be had: the compile goes on without its lines.
}

// Until nothing is compiled.
void CompileWatch::watch(State& state) {
  std::unique_lock lock(state.mutex);
  while (!state.running.empty()) {
    const auto& [what, begin] = state.running.begin()->second;  // the oldest
    const Clock::time_point due = std::max(begin + first_, state.next_notice);
    if (Clock::now() < due) {
      state.changed.wait_until(lock, due);
      continue;
    }
    state.next_notice = Clock::now() + (log_.shows_progress() ? first_ : again_);
    const std::chrono::duration<double> time = Clock::now() - begin;
    const std::size_t others = state.running.size() - 1;
    const std::string and_more = others == 0 ? "" : fmt::format(", and {} more", others);
    const std::string text =
        log_.shows_progress()
            ? fmt::format("{:.0f} s{}: {}", time.count(), and_more, what)
            : fmt::format("still {} after {:.0f} s{}", what, time.count(), and_more);
    lock.unlock();  // the log's sink may take its time
    if (log_.shows_progress())
      log_.progress(text);
    else
      log_.warning("{}", text);
    log_.deliver();
    lock.lock();
  }
  state.watched = false;
  lock.unlock();
  log_.progress({});
}

void CompileWatch::stop() {
  State& state = *state_;
  if (state.thread.joinable()) state.thread.join();
}

CompileWatch::Running::Running(CompileWatch& watch, std::string what)
    : state_(*watch.state_), number_(watch.add(state_, std::move(what))) {}

CompileWatch::Running::~Running() {
  const std::scoped_lock lock(state_.mutex);
  state_.running.erase(number_);
  if (state_.running.empty()) state_.changed.notify_one();
}

}  // namespace attnjit::runtime
