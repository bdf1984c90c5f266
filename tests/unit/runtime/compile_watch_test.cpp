#include "runtime/load/compile_watch.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "skip.hpp"
#include "unit/cache_fixtures.hpp"
#include "unit/terminal.hpp"

using namespace attnjit;
using runtime::CompileWatch;
using std::chrono::milliseconds;

namespace {

constexpr std::chrono::hours kNever(1000);

void wait_for(const test::KeepingLog& log, std::size_t lines) {
  while (log.warnings().size() < lines) std::this_thread::sleep_for(milliseconds(1));
}

bool starts(const std::string& text, const char* with) { return text.starts_with(with); }

}  // namespace

TEST_CASE("a long compile is a line, and another later") {
  test::KeepingLog log;
  CompileWatch watch(log.log(), milliseconds(1), milliseconds(1));
  {
    const CompileWatch::Running running(watch, "compiling kernel a");
    wait_for(log, 2);
  }
  CHECK(starts(log.warnings()[0], "still compiling kernel a after 0 s"));
  CHECK(starts(log.warnings()[1], "still compiling kernel a after "));
  // The thread has ended; the next compile has one again.
  const std::size_t before = log.warnings().size();
  const CompileWatch::Running first(watch, "compiling kernel b"), second(watch, "tuning c");
  wait_for(log, before + 2);
  CHECK(starts(log.warnings().back(), "still compiling kernel b"));
  CHECK(log.warnings().back().ends_with("and 1 more"));
}

TEST_CASE("a deferred log has the line while the compile runs") {
  test::KeepingLog log;
  log.log().defer();
  CompileWatch watch(log.log(), milliseconds(1), kNever);
  const CompileWatch::Running running(watch, "compiling kernel a");
  wait_for(log, 1);
  CHECK(log.warnings().size() == 1);
}

TEST_CASE("a watch that is stopped has left the sink") {
  std::atomic<bool> entered = false, left = false;
  base::Log log(base::LogLevel::kWarning, [&](base::LogLevel, std::string_view) {
    entered = true;
    std::this_thread::sleep_for(milliseconds(30));
    left = true;
  });
  CompileWatch watch(log, milliseconds(1), kNever);
  {
    const CompileWatch::Running running(watch, "compiling kernel a");
    while (!entered) std::this_thread::sleep_for(milliseconds(1));
  }
  watch.stop();
  CHECK(left);
  watch.stop();  // nothing is left to wait for
}

TEST_CASE("many long compiles share a line") {
  test::KeepingLog log;
  CompileWatch watch(log.log(), milliseconds(1), kNever);
  for (int i = 0; i < 20; ++i) {
    const CompileWatch::Running running(watch, "kernel");
    wait_for(log, 1);
  }
  CHECK(log.warnings().size() == 1);
}

TEST_CASE("a long compile is progress on a terminal, which goes with it") {
  std::string shown;
  {
    const test::Terminal terminal;
    base::Log log;
    {
      CompileWatch watch(log, milliseconds(1), kNever);
      const CompileWatch::Running running(watch, "compiling kernel a");
      shown = terminal.read_to(" s: compiling kernel a");
      shown += terminal.read_to(" s: compiling kernel a");
    }
    log.warning("last");
    shown += terminal.read_to("\r\x1b[Kattnjit: warning: last\r\n");
  }
  CHECK(shown.find("still") == std::string::npos);
}

TEST_CASE("a short compile is no line") {
  test::KeepingLog log;
  CompileWatch watch(log.log(), kNever, kNever);
  for (int i = 0; i < 100; ++i) const CompileWatch::Running running(watch, "kernel");
  CHECK(log.warnings().empty());
}

TEST_CASE("a process that was forked while a compile ran compiles, and ends") {
#ifdef __SANITIZE_THREAD__
  ATTNJIT_SKIP("the thread sanitizer knows no threads that a child of fork() starts");
#endif
  test::KeepingLog log;
  auto watch = std::make_unique<CompileWatch>(log.log(), kNever, kNever);
  const CompileWatch::Running running(*watch, "kernel of the parent");
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    { const CompileWatch::Running own(*watch, "kernel of the child"); }
    watch.reset();
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}
