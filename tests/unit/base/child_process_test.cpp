#include "base/child_process.hpp"

#include <doctest/doctest.h>

#include <csignal>

#include "attnjit/error.hpp"
#include "base/process.hpp"
#include "unit/child_process.hpp"

using namespace attnjit;
using base::ChildProcess;
using Received = ChildProcess::Received;
using namespace std::chrono_literals;

TEST_CASE("lines go to a child and come back") {
  ChildProcess child({"cat"});
  std::string line;
  REQUIRE(child.send("one\ntwo"));
  CHECK(child.receive(line, 60s) == Received::kLine);
  CHECK(line == "one");
  CHECK(child.receive(line, 60s) == Received::kLine);
  CHECK(line == "two");
  CHECK(child.receive(line, 0ms) == Received::kTimeout);
  const auto end = child.finish(60s);  // its input ends
  REQUIRE(end);
  CHECK(end->message() == "exit status 0");
}

TEST_CASE("the end of a child is told, and what it is sent then goes nowhere") {
  ChildProcess child({"sh", "-c", "exit 3"});
  std::string line;
  CHECK(child.receive(line, 60s) == Received::kEnd);
  while (child.send("more")) {
  }
  CHECK(child.finish(60s)->message() == "exit status 3");
  CHECK_FALSE(child.finish(0ms));

  ChildProcess killed({"sh", "-c", "kill -TERM $$"});
  CHECK(killed.receive(line, 60s) == Received::kEnd);
  CHECK(killed.finish(60s)->signal == 15);
}

TEST_CASE("a child that does not end is killed") {
  ChildProcess child({"sh", "-c", "exec 1>&- 0<&-; exec sleep 600"});
  std::string line;
  CHECK(child.receive(line, 60s) == Received::kEnd);
  CHECK_FALSE(child.finish(10ms));
}

TEST_CASE("where SIGCHLD is ignored a child's end is seen at once, and its cause is not known") {
  const bool seen = test::true_in_child([] {
    ::signal(SIGCHLD, SIG_IGN);
    ChildProcess child({"sh", "-c", "kill -TERM $$"});
    std::string line;
    if (child.receive(line, 60s) != Received::kEnd) return false;
    const auto end = child.finish(5s);
    return end && !end->known && end->message().find("SIGCHLD") != std::string::npos;
  });
  CHECK(seen);
}

TEST_CASE("where SIGCHLD is ignored the output of a program is there, and not its status") {
  const bool seen = test::true_in_child([] {
    ::signal(SIGCHLD, SIG_IGN);
    const base::ProcessResult result = base::run_process({"sh", "-c", "echo text; exit 3"});
    return result.may_have_succeeded() && !result.status && result.output == "text\n";
  });
  CHECK(seen);
  const base::ProcessResult failed = base::run_process({"sh", "-c", "exit 3"});
  CHECK(failed.status == 3);
  CHECK_FALSE(failed.may_have_succeeded());
}

TEST_CASE("a child without line ends is not listened to for ever") {
  ChildProcess flood({"sh", "-c", "exec tr '\\0' x < /dev/zero"});
  std::string line;
  CHECK(flood.receive(line, 60s) == Received::kEnd);
  ChildProcess drip({"sh", "-c", "while :; do printf x; sleep 0.01; done"});
  CHECK(drip.receive(line, 100ms) == Received::kTimeout);
}

TEST_CASE("time in which the parent was stopped is not held against a child") {
  const bool heard = test::true_in_child([] {
    ChildProcess child(
        {"sh", "-c", "kill -STOP $PPID; sleep 5; kill -CONT $PPID; sleep 0.5; echo done"});
    std::string line;
    return child.receive(line, 4s) == Received::kLine && line == "done";
  });
  CHECK(heard);
}

TEST_CASE("a program that is not there cannot be started") {
  CHECK_THROWS_WITH_AS(ChildProcess({"/nonexistent/program"}),
                       doctest::Contains("cannot start /nonexistent/program"), Error);
}
