#include "cli/work/tune/tune_worker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <optional>
#include <utility>

#include "attnjit/error.hpp"
#include "base/json.hpp"

namespace attnjit::cli {
namespace {

using base::ChildProcess;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kPatience = std::chrono::seconds(30);  // the system may write a core file

// Signals that come from outside (a user, a lack of memory) and say nothing of a configuration.
bool is_order(int signal) {
  return signal == SIGKILL || signal == SIGTERM || signal == SIGINT || signal == SIGHUP ||
         signal == SIGQUIT;
}

}  // namespace

/// The worker's answer to one request.
class TuneWorker::Attempt {
 public:
  Attempt(ChildProcess& process, const TuneLimits& limits) : process_(process), limits_(limits) {}

  Outcome run() {
    for (;;) {
      const auto message = next();
      if (!message) return blame(ending());
      if (const auto* begins = std::get_if<TuneBegins>(&*message)) {
        note(begins->config);
      } else if (const auto* lost = std::get_if<TuneLost>(&*message)) {
        return blame(lost->why);
      } else if (const auto* failure = std::get_if<TuneFailure>(&*message)) {
        return *failure;
      } else {
        return std::get<TuneAnswer>(*message);
      }
    }
  }

 private:
  // The next message; nullopt where none came, and `ended_` says why.
  std::optional<TuneMessage> next() {
    std::string line;
    ended_ = process_.receive(line, limit());
    if (ended_ != ChildProcess::Received::kLine) return std::nullopt;
    return parse_message(line);
  }

  milliseconds limit() const {
    if (!running_) return limits_.prepare;
    if (*running_ == *first_) return limits_.first;
    return std::max(limits_.least, limits_.factor * first_took_);
  }

  void note(const base::Json& config) {
    const Clock::time_point now = Clock::now();
    if (running_ && *running_ == *first_) {
      first_took_ = std::max(first_took_, std::chrono::ceil<milliseconds>(now - since_));
    }
    if (!first_) first_ = config;
    running_ = config;
    since_ = now;
  }

  std::string ending() {
    if (ended_ == ChildProcess::Received::kTimeout) {
      return fmt::format("it did not answer for {:.1f} s", limit().count() / 1000.0);
    }
    const auto end = process_.finish(kPatience);
    if (!end) return "it closed its output and went on";
    from_outside_ = !end->known || is_order(end->signal);
    return fmt::format("its process ended: {}", end->message());
  }

  Outcome blame(const std::string& why) const {
    if (from_outside_) {
      return TuneFailure{fmt::format("the worker was ended from outside, {}; run tune again", why)};
    }
    if (!running_) {
      return TuneFailure{fmt::format("the worker failed before it measured anything: {}", why)};
    }
    if (*running_ == *first_) {
      return TuneFailure{fmt::format("configuration 0 does not run: {}", why)};
    }
    return BrokenConfig{*running_, why};
  }

  ChildProcess& process_;
  const TuneLimits& limits_;
  std::optional<base::Json> first_;    // configuration 0
  std::optional<base::Json> running_;  // nullopt: candidates are prepared
  Clock::time_point since_;
  milliseconds first_took_{0};
  ChildProcess::Received ended_ = ChildProcess::Received::kLine;
  bool from_outside_ = false;
};

TuneWorker::TuneWorker(std::vector<std::string> command, const TuneLimits& limits)
    : command_(std::move(command)), limits_(limits) {}

TuneWorker::Outcome TuneWorker::tune(const TuneRequest& request) {
  if (!process_) process_ = std::make_unique<ChildProcess>(command_);
  Outcome outcome;
  try {
    // A worker that takes no request gives no answer either, which is met there.
    process_->send(to_line(request));
    outcome = Attempt(*process_, limits_).run();
  } catch (const Error& error) {
    outcome = TuneFailure{error.what()};
  }
  if (!std::holds_alternative<TuneAnswer>(outcome)) process_.reset();
  return outcome;
}

}  // namespace attnjit::cli
