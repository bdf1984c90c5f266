#include <doctest/doctest.h>
#include <sched.h>
#include <unistd.h>

#include <string>

#include "base/temporary_name.hpp"
#include "skip.hpp"
#include "unit/child_process.hpp"

using namespace attnjit;
using base::writer_of;

TEST_CASE("a temporary name tells its writer, and no two are the same") {
  const std::string name = base::temporary_name();
  CHECK(name != base::temporary_name());
  CHECK(name.find('/') == std::string::npos);
  const auto writer = writer_of(name);
  REQUIRE(writer);
  CHECK(writer->process == ::getpid());
  CHECK_FALSE(base::has_ended(*writer));
}

TEST_CASE("what is no temporary name has no writer") {
  for (const char* name :
       {"", ".tmp", "a.tmp", "..tmp", "host.1.tmp", "host.x.0123456789abcdef.tmp",
        "host.-1.0123456789abcdef.tmp", "host.0.0123456789abcdef.tmp",
        "host.1.0123456789abcdeg.tmp", "host.1.0123456789abcde.tmp",
        "host.99999999999.0123456789abcdef.tmp", "host.1.0123456789abcdef"}) {
    CAPTURE(name);
    CHECK_FALSE(writer_of(name));
  }
  CHECK(writer_of("host.1.0123456789abcdef.tmp")->host == "host");
}

TEST_CASE("a writer has ended when it is of this host and not there any more") {
  const auto here = *writer_of(base::temporary_name());
  const pid_t child = test::start_child([] { return true; });
  CHECK(test::succeeded(child));
  CHECK(base::has_ended({here.host, child}));
  CHECK_FALSE(base::has_ended({"elsewhere", child}));
  CHECK_FALSE(base::has_ended({"unknown", child}));
}

TEST_CASE("a writer has not ended for a process that cannot see it, in another PID namespace") {
  const auto here = *writer_of(base::temporary_name());
  const auto leave = [] { return ::unshare(CLONE_NEWUSER | CLONE_NEWPID) == 0; };
  if (!test::true_in_child(leave)) ATTNJIT_SKIP("this user cannot make a PID namespace");
  CHECK(test::true_in_child(
      [&] { return leave() && test::true_in_child([&] { return !base::has_ended(here); }); }));
}
