#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/file.hpp"
#include "base/random_access_file.hpp"
#include "unit/temp_directory.hpp"

using namespace attnjit::base;
using attnjit::test::TempDirectory;
namespace fs = std::filesystem;

namespace {

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

void put(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }

std::size_t count_in(const fs::path& directory) {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(directory), fs::directory_iterator()));
}

/// Limits the size of files while it lives.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() { ::setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_;
};

}  // namespace

TEST_CASE("a file that is dated beyond the range of its stamp is in the future all the same") {
  const TempDirectory directory;
  const auto path = directory / "file";
  std::ofstream(path).put('x');
  const timespec date{.tv_sec = time_t{1} << 34, .tv_nsec = 0};
  const timespec dates[2] = {date, date};
  REQUIRE(::utimensat(AT_FDCWD, path.c_str(), dates, 0) == 0);
  CHECK(stamp_of(path)->modified > std::chrono::system_clock::now());
}

TEST_CASE("lines are appended whole, whoever else appends") {
  const TempDirectory temp;
  const fs::path path = temp / "lines";
  {
    std::vector<std::jthread> writers;
    for (const char letter : {'a', 'b', 'c', 'd'}) {
      writers.emplace_back([&path, letter] {
        for (int i = 0; i < 50; ++i) CHECK(append_line(path, std::string(300, letter)).ok());
      });
    }
  }
  std::ifstream file(path);
  int lines = 0;
  for (std::string line; std::getline(file, line); ++lines) {
    CHECK(line == std::string(300, line[0]));
  }
  CHECK(lines == 200);
  CHECK_FALSE(append_line(temp / "nothing" / "lines", "x").ok());
  fs::create_symlink(path, temp / "link");
  CHECK_FALSE(append_line(temp / "link", "x").ok());
}

TEST_CASE("UniqueFd closes what it owns, once") {
  int number = -1;
  {
    UniqueFd fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    REQUIRE(fd);
    number = fd.get();
    const UniqueFd moved(std::move(fd));
    CHECK_FALSE(fd);
    CHECK(moved.get() == number);
    CHECK(::fcntl(number, F_GETFD) != -1);
  }
  CHECK(::fcntl(number, F_GETFD) == -1);
  UniqueFd bad(number);
  CHECK(bad.close() == EBADF);
  CHECK_FALSE(bad);
}

TEST_CASE("read_regular_file gives the whole file up to its limit") {
  const TempDirectory directory;
  put(directory / "file", "twelve bytes");
  CHECK(read_regular_file(directory / "file", 12) == bytes_of("twelve bytes"));
  CHECK_FALSE(read_regular_file(directory / "file", 11));
  put(directory / "empty", "");
  CHECK(read_regular_file(directory / "empty", 0) == bytes_of(""));
}

TEST_CASE("read_regular_file does not allocate for a huge file, nor block, nor follow links") {
  const TempDirectory directory;
  put(directory / "file", "text");
  fs::resize_file(directory / "file", std::uint64_t{1} << 40);
  CHECK_FALSE(read_regular_file(directory / "file", 1 << 20));

  put(directory / "target", "text");
  fs::create_symlink(directory / "target", directory / "link");
  REQUIRE(::mkfifo((directory / "fifo").c_str(), 0600) == 0);
  for (const char* name : {"absent", "link", "fifo", ".", "target/below"}) {
    CAPTURE(name);
    CHECK_FALSE(read_regular_file(directory / name, 100));
  }
}

TEST_CASE("read_private_file refuses what others could have written") {
  const TempDirectory directory;
  const fs::path path = directory / "file";
  put(path, "text");
  for (const mode_t mode : {0600, 0644, 0400}) {
    REQUIRE(::chmod(path.c_str(), mode) == 0);
    CHECK(read_private_file(path, 100));
  }
  for (const mode_t mode : {0620, 0602}) {
    REQUIRE(::chmod(path.c_str(), mode) == 0);
    CHECK_FALSE(read_private_file(path, 100));
    CHECK(read_regular_file(path, 100));
  }
  REQUIRE(::chmod(path.c_str(), 0600) == 0);
  if (::geteuid() != 0) return;  // only root can give a file away
  REQUIRE(::chown(path.c_str(), 54321, 54321) == 0);
  CHECK_FALSE(read_private_file(path, 100));
}

TEST_CASE("a file that is one too many says so, and what to do") {
  const TempDirectory directory;
  put(directory / "file", "text");
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit none{0, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  const auto opened = RandomAccessFile::open(directory / "file");
  ::setrlimit(RLIMIT_NOFILE, &before);
  REQUIRE(std::holds_alternative<std::string>(opened));
  CHECK(std::get<std::string>(opened) ==
        "Too many open files in this process; raise its limit (ulimit -n)");
}

TEST_CASE("write_file_atomic makes and replaces files of mode 0600 and leaves nothing else") {
  const TempDirectory directory;
  const fs::path temporary = directory / "tmp";
  fs::create_directory(temporary);
  for (const std::string text : {"first", "the second, longer", ""}) {
    const WriteResult result = write_file_atomic(directory / "file", temporary, bytes_of(text));
    CHECK(result.ok());
    CHECK(read_private_file(directory / "file", 100) == bytes_of(text));
  }
  struct stat status;
  REQUIRE(::stat((directory / "file").c_str(), &status) == 0);
  CHECK((status.st_mode & 07777) == 0600);
  CHECK(count_in(temporary) == 0);
}

TEST_CASE("write_file_atomic reports the step that failed and cleans up") {
  const TempDirectory directory;
  const fs::path temporary = directory / "tmp";
  const auto bytes = bytes_of("new");

  WriteResult result = write_file_atomic(directory / "file", temporary, bytes);
  CHECK(result.error == ENOENT);
  CHECK(result.message().starts_with("open: "));

  fs::create_directory(temporary);
  fs::create_directory(directory / "directory");
  result = write_file_atomic(directory / "directory", temporary, bytes);
  CHECK(result.error == EISDIR);
  CHECK(result.message().starts_with("rename: "));
  CHECK(count_in(temporary) == 0);
}

TEST_CASE("write_file_atomic survives the file-size limit and keeps the old file") {
  const TempDirectory directory;
  put(directory / "file", "old");
  fs::create_directory(directory / "tmp");
  WriteResult result;
  {
    const FileSizeLimit limit(4096);
    result =
        write_file_atomic(directory / "file", directory / "tmp", std::vector<std::byte>(100000));
  }
  CHECK(result.error == EFBIG);
  CHECK(read_regular_file(directory / "file", 100) == bytes_of("old"));
  CHECK(count_in(directory / "tmp") == 0);

  sigset_t signals;
  ::sigpending(&signals);
  CHECK(sigismember(&signals, SIGXFSZ) == 0);
  ::pthread_sigmask(SIG_BLOCK, nullptr, &signals);
  CHECK(sigismember(&signals, SIGXFSZ) == 0);
}
