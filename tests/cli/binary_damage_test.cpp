// The binary on damaged caches: it gets the right kernel and leaves a sound cache.
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <functional>

#include "base/json.hpp"
#include "command_line.hpp"
#include "skip.hpp"

namespace attnjit::test::binary_damage_test {
namespace {

namespace fs = std::filesystem;

// Ends a run that hangs.
constexpr const char* kLimited = "timeout 60";

/// A command line whose cache holds one kernel, which runs compare theirs with.
class Warm {
 public:
  Warm() : cubin_(attnjit(kEmit).out), bytes_(read_file(attnjit.entry())) {
    REQUIRE(cubin_.size() > 1000);
  }

  const std::string& bytes() const { return bytes_; }

  /// A run that writes the right kernel.
  Outcome emit() const {
    Outcome outcome = attnjit(kEmit, {}, kLimited);
    CHECK(outcome.code == 0);
    CHECK((outcome.out == cubin_));
    return outcome;
  }

  const CommandLine attnjit;

 private:
  const std::vector<std::string> kEmit = small_problem({"emit", "--format", "cubin"});
  const std::string cubin_, bytes_;
};

TEST_CASE("a damaged kernel is compiled again, and the cache is sound afterwards") {
  const Warm warm;
  const fs::path entry = warm.attnjit.entry();
  const auto flipped = [&](std::size_t at) {
    return [&, at] {
      std::string bytes = warm.bytes();
      bytes[at] = static_cast<char>(bytes[at] ^ 1);
      write_file(entry, bytes);
    };
  };
  const auto written = [&](std::string bytes) { return [&, bytes] { write_file(entry, bytes); }; };
  struct Row {
    const char* what;
    std::function<void()> damage;
    bool told;  // that it is damaged; else it is no entry at all
  };
  const std::vector<Row> rows = {
      {"magic", flipped(0), true},
      {"format", flipped(8), true},
      {"own key", flipped(32), true},
      {"checksum", flipped(64), true},
      {"last byte", flipped(warm.bytes().size() - 1), true},
      {"empty", written(""), true},
      {"half", written(warm.bytes().substr(0, warm.bytes().size() / 2)), true},
      {"more", written(warm.bytes() + "more"), true},
      {"fifo", [&] { fs::remove(entry), ::mkfifo(entry.c_str(), 0600); }, false},
      {"link", [&] { fs::remove(entry), fs::create_symlink("/nonexistent/x", entry); }, false},
  };
  for (const Row& row : rows) {
    CAPTURE(std::string(row.what));
    row.damage();
    CHECK(holds(warm.emit().err, "is not used") == row.told);
    CHECK((read_file(entry) == warm.bytes()));
    CHECK(warm.attnjit({"cache", "verify"}).code == 0);
    CHECK(fs::is_empty(warm.attnjit.cache() / "v1/tmp"));
    CHECK(warm.emit().err == "");
  }
}

TEST_CASE("a kernel under another one's name is damage") {
  const Warm warm;
  const fs::path entry = warm.attnjit.entry();
  const CommandLine other;
  REQUIRE(other(small_problem({"emit", "--format", "cubin", "--dtype", "fp16"})).code == 0);
  fs::copy_file(other.entry(), entry, fs::copy_options::overwrite_existing);
  CHECK(warm.attnjit({"cache", "verify"}).code == 4);
  CHECK(holds(warm.emit().err, "another kernel than its name says"));
  CHECK(warm.attnjit({"cache", "verify"}).code == 0);
}

TEST_CASE("a kernel is found whatever the time of its file") {
  const Warm warm;
  for (const int years : {-10, 10}) {
    fs::last_write_time(warm.attnjit.entry(),
                        fs::file_time_type::clock::now() + std::chrono::hours(24 * 365 * years));
    CHECK(warm.emit().err == "");
    CHECK(warm.attnjit({"cache", "gc", "--json"}).json().at("removed") == 0);
  }
}

// That nothing is kept in a cache which breaks `rule`, and the kernel is served all the same.
void expect_unused(const CommandLine& attnjit, const std::string& rule) {
  const Outcome outcome = attnjit(small_problem({"emit", "--format", "facts"}));
  CHECK(outcome.code == 0);
  CHECK(holds(outcome.err, rule));
  CHECK(fs::is_empty(attnjit.cache()));
}

TEST_CASE("a directory that everyone may write to holds no kernels") {
  const CommandLine attnjit;
  fs::create_directory(attnjit.cache());
  fs::permissions(attnjit.cache(), fs::perms::all);
  expect_unused(attnjit, "everyone may write to it");
}

TEST_CASE("a directory of another user holds no kernels") {
  if (::geteuid() != 0) ATTNJIT_SKIP("only root can give a directory away");
  const CommandLine attnjit;
  fs::create_directory(attnjit.cache());
  REQUIRE(::chown(attnjit.cache().c_str(), 12345, 12345) == 0);
  expect_unused(attnjit, "it belongs to another user");
}

TEST_CASE("a user whom the system does not know, without a home, gets kernels in memory") {
  if (::geteuid() != 0) ATTNJIT_SKIP("only root can become another user");
  const std::string stranger = "setpriv --reuid 54321 --regid 54321 --clear-groups";
  if (std::system((stranger + " test -x " + quoted(ATTNJIT_BINARY)).c_str()) != 0) {
    ATTNJIT_SKIP("another user cannot enter the directory of the build");
  }
  const CommandLine attnjit;
  fs::create_directory(attnjit.cache());  // not for others to read
  fs::permissions(attnjit.cache(), fs::perms::owner_all);
  for (const std::string& directory : {std::string(), attnjit.cache().string()}) {
    CAPTURE(directory);
    const Outcome outcome =
        attnjit(small_problem({"emit", "--format", "facts"}),
                {{"HOME", ""}, {"XDG_CACHE_HOME", ""}, {"ATTNJIT_CACHE_DIR", directory}}, stranger);
    CHECK(outcome.code == 0);
    CHECK(holds(outcome.err, "attnjit: warning: "));
    CHECK(fs::is_empty(attnjit.cache()));
  }
}

TEST_CASE("a directory is used whatever characters its name has, and however long it is") {
  const CommandLine attnjit;
  for (const std::string& name : {std::string("with spaces and 'quotes'"),
                                  std::string("\xc3\xa4 \xe6\xbc\xa2"), std::string(200, 'x')}) {
    CAPTURE(name);
    const CommandLine::Variables there = {{"ATTNJIT_CACHE_DIR", attnjit.file(name)}};
    for (const auto& arguments : {small_problem({"warmup"}), small_problem({"warmup", "--check"}),
                                  std::vector<std::string>{"cache", "verify"}}) {
      const Outcome outcome = attnjit(arguments, there);
      INFO(outcome.err);
      CHECK(outcome.code == 0);
    }
  }
}

TEST_CASE("a limit on the size of files costs the kernel on disk and no more") {
  const CommandLine attnjit;
  const Outcome limited = attnjit(small_problem({"emit", "--format", "facts"}), {},
                                  "sh -c 'ulimit -f 4; exec \"$@\"' sh");
  CHECK(limited.code == 0);
  CHECK(holds(limited.err, "File too large"));
  CHECK(fs::is_empty(attnjit.cache() / "v1/tmp"));
  CHECK(attnjit({"cache", "verify"}).code == 0);
}

TEST_CASE("a limit on open files costs the kernel at most, and leaves a sound cache") {
#ifdef __SANITIZE_ADDRESS__
  ATTNJIT_SKIP("a program with the sanitizer does not start without files of its own");
#endif
  const CommandLine attnjit;
  for (int limit = 4; limit <= 8; ++limit) {
    CAPTURE(limit);
    const Outcome limited = attnjit(small_problem({"emit", "--format", "facts"}), {},
                                    fmt::format("sh -c 'ulimit -n {}; exec \"$@\"' sh", limit));
    CHECK((limited.code == 0 || holds(limited.err, "Too many open files") ||
           holds(limited.err, "Error 24")));  // of the dynamic linker
    CHECK(attnjit({"cache", "verify"}).code == 0);
  }
  CHECK(fs::is_empty(attnjit.cache() / "v1/tmp"));
}

TEST_CASE("32 processes that want the same kernels compile each once") {
  const CommandLine attnjit;
  fs::create_directory(attnjit.file("run"));
  std::string words;
  for (const std::string& word : small_problem({"warmup", "--json"})) words += quoted(word) + " ";
  // The shell starts them, waits for all, and fails where one does.
  const std::string storm = fmt::format(
      "export ATTNJIT_CACHE_DIR={0} XDG_RUNTIME_DIR={1}; "
      "for i in $(seq 32); do {2} {3} > {4}.$i 2> {4}.err & all=\"$all $!\"; done; "
      "for one in $all; do wait $one || exit 1; done",
      quoted(attnjit.cache().string()), quoted(attnjit.file("run")), quoted(ATTNJIT_BINARY), words,
      quoted(attnjit.file("out")));
  REQUIRE(std::system(("timeout 60 sh -c " + quoted(storm)).c_str()) == 0);
  int compiled = 0;
  for (int i = 1; i <= 32; ++i) {
    const auto report = base::parse_json(read_file(attnjit.file(fmt::format("out.{}", i))));
    compiled += report.at("compiled").get<int>();
  }
  CHECK(compiled == 2);
  CHECK(attnjit({"cache", "verify"}).code == 0);
}

}  // namespace
}  // namespace attnjit::test::binary_damage_test
