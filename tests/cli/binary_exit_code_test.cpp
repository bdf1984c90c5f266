#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <string>
#include <vector>

#include "command_line.hpp"

namespace attnjit::test {
namespace {

TEST_CASE("help and version succeed on stdout") {
  const CommandLine attnjit;
  for (const char* verb :
       {"doctor", "plan", "emit", "run", "bench", "tune", "warmup", "records", "cache"}) {
    CAPTURE(verb);
    CHECK(attnjit({verb, "--help"}).code == 0);
    CHECK(holds(attnjit({"--help"}).out, verb));
  }
  const Outcome version = attnjit({"--version"});
  CHECK(version.code == 0);
  // A build from a checkout adds its commit in brackets.
  CHECK(
      (version.out == "attnjit " ATTNJIT_VERSION "\n" ||
       (version.out.starts_with("attnjit " ATTNJIT_VERSION " (") && version.out.ends_with(")\n"))));
}

TEST_CASE("exit 2: usage") {
  const CommandLine attnjit;
  const std::vector<std::vector<std::string>> lines = {
      {},
      {"frobnicate"},
      {"plan", "--no-such-flag"},
      {"plan", "--batch", "many", "--arch", "sm_80"},
      {"plan", "--dtype", "fp8", "--arch", "sm_80"},
      {"plan", "--causal", "--arch", "sm_80"},
      {"plan", "--heads-q", "8", "--heads-kv", "3", "--arch", "sm_80"},
      {"plan", "--manifest", "/nonexistent.json", "--arch", "sm_80"},
      {"plan", "--config", "{\"head_dim\": 64}", "--head-dim", "128", "--arch", "sm_80"},
      {"plan", "--config", "{\"block_q\": 17}", "--arch", "sm_80"},
      {"plan", "--config", "{\"tile\": 64}", "--arch", "sm_80"},
      {"emit", "--format", "sass", "--arch", "sm_80"},
      {"emit", "--step", "7", "--arch", "sm_80"},
      {"emit", "--arch", "sm_80,sm_86"},
      {"emit", "--jobs", "0", "--arch", "sm_80"},
      {"run", "--on", "moon"},
      {"run", "--rows", "few"},
      {"run", "--on", "gpu", "--path", "fast"},
      {"bench", "--path", "fast"},
      {"bench", "--no-such-flag"},
      {"bench", "--shapes", "/nonexistent.json"},
      {"bench", "--shapes", "/nonexistent.json", "--batch", "2"},
      {"bench", "--filter", "no such name"},
      {"cache"},
      {"cache", "show"},
  };
  for (const auto& line : lines) {
    const Outcome outcome = attnjit(line);
    CAPTURE(outcome.err);
    CHECK(outcome.code == 2);
    CHECK(outcome.out.empty());
    CHECK(outcome.err.starts_with("attnjit: error: "));
  }
  CHECK(holds(attnjit({"frobnicate"}).err,
              "'frobnicate' is not a verb; expected one of doctor, plan"));
}

TEST_CASE("a usage error says what to do") {
  const CommandLine attnjit;
  const std::string empty = attnjit.file("empty"), broken = attnjit.file("broken");
  write_file(empty, "\n");
  write_file(broken, "{");
  struct Row {
    std::vector<std::string> line;
    const char* text;
  };
  const std::vector<Row> rows = {
      {{"plan", "--seqlen-q", "1e9"}, "--seqlen-q: '1e9'; expected a whole number from "},
      {{"plan", "--seqlen-q", "99999999999999999999"}, "expected a whole number from "},
      {{"plan", "--cu-seqlens-q", "0,3000000000"}, "'3000000000'; expected a whole number from "},
      {{"plan", "--seed", "-1"}, "--seed: '-1'; expected a whole number from 0 to "},
      {{"plan", "--scale", "much"}, "--scale: 'much'; expected a number"},
      {{"plan", "--first", "second", "third"},
       "error: plan: unexpected arguments --first second third; attnjit plan --help lists "},
      {{"cache", "path", "extra"}, "error: cache path: unexpected argument extra; attnjit cache "},
      {{}, "error: expected one of doctor, plan, explain, emit, run, replay, bench, tune, warmup, records, "},
      {{"cache"}, "error: cache: expected one of path, ls, show, stat, verify, gc, clear, export"},
      {{"cache", "show"}, "error: cache show: KEY is missing: The key of a kernel"},
      {{"cache", "import"}, "error: cache import: FILE is missing: The bundle"},
      {{"records", "import"}, "FILES is missing: Files of records, JSON lines; attnjit records "},
      {{"plan", "--manifest", "/nonexistent"}, "No such file or directory; name a readable file"},
      {{"plan", "--manifest", "/tmp"}, "Is a directory; name a readable file"},
      {{"plan", "--manifest", empty}, "empty: empty; expected an object with schema and problems"},
      {{"plan", "--manifest", broken}, "broken: parse error at line 1"},
  };
  for (const Row& row : rows) {
    const Outcome outcome = attnjit(row.line);
    CAPTURE(outcome.err);
    CHECK(outcome.code == 2);
    CHECK(holds(outcome.err, row.text));
  }
  const Outcome templates = attnjit({"plan", "--arch", "sm_80"}, {{"ATTNJIT_TEMPLATE_DIR", "/x"}});
  CHECK(templates.code == 2);
  CHECK(holds(templates.err, "cannot read /x: No such file or directory; set it to a copy of"));
  CHECK(holds(attnjit({"tune"}, {{"DISABLE_AUTOTUNE", "0"}}).err, "attnjit warmup compiles"));
}

// The lock file of a kernel is open while it compiles. The gate of the fake NVRTC holds the compile
// until the file has a second name, because its own is removed with the lock.
TEST_CASE("without a standard error no file gets what is said") {
  const CommandLine attnjit;
  const std::filesystem::path run = attnjit.file("run"), gate = attnjit.file("gate");
  std::filesystem::create_directory(run);
  std::filesystem::permissions(run, std::filesystem::perms::owner_all);
  REQUIRE(::mkfifo(gate.c_str(), 0600) == 0);
  auto warmup = std::async(std::launch::async, [&] {
    return attnjit(small_problem({"warmup", "--jobs", "1"}),
                   {{"ATTNJIT_NVRTC", FAKE_NVRTC},
                    {"ATTNJIT_LOG", "info"},
                    {"FAKE_NVRTC_GATE", gate.string()},
                    {"XDG_RUNTIME_DIR", run.string()}},
                   "sh -c 'exec \"$0\" \"$@\" 2>&-'");
  });
  int writer = -1;
  while (writer < 0 && warmup.wait_for(std::chrono::milliseconds(5)) != std::future_status::ready) {
    writer = ::open(gate.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);  // fails before the compile
  }
  REQUIRE(writer >= 0);
  std::vector<std::filesystem::path> locks;
  for (const auto& item : std::filesystem::recursive_directory_iterator(run)) {
    if (!item.is_regular_file()) continue;
    locks.push_back(attnjit.file("lock-" + std::to_string(locks.size())));
    std::filesystem::create_hard_link(item.path(), locks.back());
  }
  std::filesystem::remove(gate);  // later compiles do not wait
  ::close(writer);
  CHECK(warmup.get().code == 6);
  CHECK(locks.size() > 0);
  for (const auto& path : locks) CHECK(read_file(path).empty());
  CHECK(attnjit({"cache", "path"}, {}, "sh -c 'exec \"$0\" \"$@\" >&-'").code == 1);
}

TEST_CASE("exit 2: garbage in the environment, for every verb") {
  const CommandLine attnjit;
  for (const char* verb : {"doctor", "plan", "emit", "run", "bench", "tune", "warmup"}) {
    CAPTURE(verb);
    const Outcome outcome = attnjit({verb}, {{"DISABLE_AUTOTUNE", "banana"}});
    CHECK(outcome.code == 2);
    CHECK(holds(outcome.err, "banana"));
  }
}

TEST_CASE("exit 5: sound but not served") {
  const CommandLine attnjit;
  const std::vector<std::vector<std::string>> lines = {
      {"plan", "--arch", "sm_70"},
      {"emit", "--arch", "sm_9000"},
      {"plan", "--arch", "sm_80", "--head-dim", "512"},
      {"plan", "--arch", "sm_80", "--path", "wgmma"},
  };
  for (const auto& line : lines) {
    const Outcome outcome = attnjit(line);
    CAPTURE(outcome.err);
    CHECK(outcome.code == 5);
  }
}

TEST_CASE("exit 6: a compile without NVRTC, while source and plans need none") {
  const CommandLine attnjit;
  const CommandLine::Variables none = {{"ATTNJIT_NVRTC", "/nonexistent"}};
  for (const char* format : {"ptx", "cubin", "facts"}) {
    CAPTURE(format);
    const Outcome outcome = attnjit(small_problem({"emit", "--format", format}), none);
    CHECK(outcome.code == 6);
    CHECK(holds(outcome.err, "/nonexistent"));
  }
  CHECK(attnjit(small_problem({"emit", "--format", "cuda"}), none).code == 0);
  CHECK(attnjit(small_problem({"plan"}), none).code == 0);
}

TEST_CASE("exit 7: what needs a GPU and finds none") {
  const CommandLine attnjit;
  CHECK(attnjit({"run", "--on", "gpu"}).code == 7);
  const Outcome bench =
      attnjit({"bench", "--output", attnjit.file("results.json")}, {{"DISABLE_AUTOTUNE", "0"}});
  CHECK(bench.code == 7);
  CHECK(bench.err.starts_with("attnjit: error: "));
  CHECK_FALSE(std::filesystem::exists(attnjit.file("results.json")));
  const Outcome outcome = attnjit({"plan"});
  CHECK(outcome.code == 7);
  CHECK(holds(outcome.err, "--arch sm_90a"));
}

TEST_CASE("exit 3: some entries of a manifest failed, and 5 where all did alike") {
  const CommandLine attnjit;
  const std::string wide = R"({"name": "wide", "heads": 1, "head_dim": 512, "seqlens": 64})";
  const std::string sound = R"({"name": "sound", "heads": 1, "head_dim": 32, "seqlens": 64})";
  write_file(attnjit.file("mixed.jsonl"), wide + "\n" + sound + "\n");
  write_file(attnjit.file("wide.jsonl"), wide + "\n");
  const Outcome mixed =
      attnjit({"plan", "--manifest", attnjit.file("mixed.jsonl"), "--arch", "sm_80"});
  CHECK(mixed.code == 3);
  CHECK(holds(mixed.err, "wide"));
  CHECK(holds(mixed.out, "sound"));
  CHECK(attnjit({"plan", "--manifest", attnjit.file("wide.jsonl"), "--arch", "sm_80"}).code == 5);
}

TEST_CASE("a malformed manifest names file, entry and member") {
  const CommandLine attnjit;
  write_file(attnjit.file("bad.jsonl"),
             R"({"name": "b", "heads": 1, "head_dim": 0, "seqlens": 1})");
  const Outcome outcome = attnjit({"plan", "--manifest", attnjit.file("bad.jsonl")});
  CHECK(outcome.code == 2);
  CHECK(holds(outcome.err, "bad.jsonl: line 1 (b): head_dim is 0; expected"));
}

TEST_CASE("with --json an error is an object as well") {
  const CommandLine attnjit;
  const Outcome outcome = attnjit({"run", "--on", "gpu", "--json"});
  CHECK(outcome.code == 7);
  CHECK(outcome.json().at("schema") == 1);
  CHECK(outcome.json().at("exit") == 7);
  CHECK(outcome.json().contains("error"));
}

TEST_CASE("doctor reports what is missing and succeeds") {
  const CommandLine attnjit;
  const Outcome outcome = attnjit(
      {"doctor"}, {{"ATTNJIT_NVRTC", "/nonexistent"}, {"ATTNJIT_CACHE_DIR", "/dev/null/cache"}});
  CHECK(outcome.code == 0);
  CHECK(holds(outcome.out, "what to do"));
  CHECK(holds(outcome.out, "* compiler: "));
  CHECK(holds(outcome.out, "* devices: "));
  CHECK(holds(outcome.out, "* cache: "));
  CHECK(holds(outcome.out, "/dev/null is not a directory"));
  CHECK_FALSE(std::filesystem::exists(attnjit.cache()));
}

TEST_CASE("doctor --json has every section") {
  const CommandLine attnjit;
  const auto object = attnjit({"doctor", "--json"}).json();
  for (const char* member : {"schema", "version", "compiler", "CPU executor", "devices", "cache",
                             "environment", "what_to_do"}) {
    CAPTURE(member);
    CHECK(object.contains(member));
  }
  CHECK(object.at("environment").at("ATTNJIT_CACHE_DIR") == attnjit.cache().string());
}

}  // namespace
}  // namespace attnjit::test
