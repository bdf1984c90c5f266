#include "cli/report/output_file.hpp"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <thread>

#include "command_line.hpp"
#include "skip.hpp"

namespace attnjit::test {
namespace {

namespace fs = std::filesystem;

std::size_t files_in(const fs::path& directory) {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(directory), fs::directory_iterator()));
}

// The exit status of a shell command.
int shell(const std::string& command) {
  const int status = std::system(command.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::string emit_to(const std::string& file) {
  return fmt::format("env ATTNJIT_CACHE_DIR=0 {} emit --arch sm_80 -o {}", quoted(ATTNJIT_BINARY),
                     quoted(file));
}

TEST_CASE("a file is replaced whole, beside no other, and is the user's as the umask says") {
  const TempDirectory temp;
  const fs::path file = temp / "out";
  const mode_t before = ::umask(022);
  cli::write_file(file.string(), "first, and longer");
  cli::write_file(file.string(), "second");
  ::umask(before);
  CHECK(read_file(file) == "second");
  CHECK((fs::status(file).permissions() & fs::perms::mask) == static_cast<fs::perms>(0644));
  CHECK(files_in(temp.path()) == 1);
}

TEST_CASE("a link stays a link, and its target gets the text") {
  const TempDirectory temp;
  fs::create_directory(temp / "elsewhere");
  write_file(temp / "elsewhere" / "target", "old");
  fs::create_symlink(temp / "elsewhere" / "target", temp / "link");
  cli::write_file((temp / "link").string(), "new");
  CHECK(fs::is_symlink(temp / "link"));
  CHECK(read_file(temp / "elsewhere" / "target") == "new");
}

TEST_CASE("what is no regular file is written as it is") {
  const TempDirectory temp;
  const fs::path pipe = temp / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  std::string got;
  {
    const std::jthread reader([&] { got = read_file(pipe); });
    cli::write_file(pipe.string(), "through a pipe");
  }
  CHECK(got == "through a pipe");
  CHECK(fs::is_fifo(pipe));
  cli::write_file("/dev/null", "nowhere");
  const CommandLine attnjit;
  const Outcome outcome = attnjit({"emit", "--arch", "sm_80", "-o", "/dev/stdout"});
  CHECK(outcome.code == 0);
  CHECK(outcome.out.find("attn_fwd") != std::string::npos);
  error_of(ErrorKind::kCache, [] { cli::write_file("/dev/full", "text"); });
}

TEST_CASE("a directory that is absent is an error before the work and at its end") {
  const TempDirectory temp;
  const std::string file = (temp / "absent" / "out").string();
  error_of(ErrorKind::kCache, [&] { cli::write_file(file, "text"); });
  const auto error =
      error_of(ErrorKind::kInvalidEnvironment, [&] { cli::expect_writable("--output", file); });
  CHECK(error.find("--output") == 0);
  cli::expect_writable("--output", (temp / "out").string());
  cli::expect_writable("--output", "/dev/null");
  CHECK(files_in(temp.path()) == 0);
}

TEST_CASE("a file-size limit leaves the old file, and exit 1 with a message") {
  const TempDirectory temp;
  write_file(temp / "out.cu", "good");
  const std::string file = (temp / "out.cu").string();
  CHECK(shell(fmt::format("ulimit -f 1; {} 2>{}", emit_to(file),
                          quoted((temp / "err").string()))) == 1);
  CHECK(read_file(file) == "good");
  CHECK(read_file(temp / "err").find("cannot write") != std::string::npos);
  CHECK(files_in(temp.path()) == 2);
}

TEST_CASE("a full disk leaves the old file, and exit 1 with a message") {
  const TempDirectory temp;
  const std::string disk = quoted(temp.path().string());
  const std::string mount = fmt::format("mount -t tmpfs -o size=16k none {0} && cd {0}", disk);
  if (shell(fmt::format("unshare -Urm sh -c {} 2>/dev/null", quoted(mount))) != 0) {
    ATTNJIT_SKIP("no file system can be mounted here");
  }
  // 90: the disk held what it must not, or lost what it had.
  const std::string script = fmt::format(
      "{} && echo good > out.cu && {}; code=$?; "
      "[ \"$(cat out.cu)\" = good ] && [ \"$(ls)\" = out.cu ] || exit 90; exit $code",
      mount, emit_to("out.cu"));
  CHECK(shell(fmt::format("unshare -Urm sh -c {} 2>/dev/null", quoted(script))) == 1);
}

}  // namespace
}  // namespace attnjit::test
