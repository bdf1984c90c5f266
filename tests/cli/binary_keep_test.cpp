// The verbs that exist to keep something say how much of it is on disk afterwards.
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/json.hpp"
#include "command_line.hpp"
#include "skip.hpp"
#include "tuner/space.hpp"
#include "unit/tuner_fixtures.hpp"

namespace attnjit::test {
namespace {

/// Puts a file system of `kilobytes` in the place of the cache for one command.
std::string small_disk(const CommandLine& attnjit, int kilobytes) {
  std::filesystem::create_directories(attnjit.cache());
  return fmt::format(
      "unshare -Urm sh -c 'mount -t tmpfs -o size={}k,mode=0700 none \"$0\" && exec \"$@\"' {}",
      kilobytes, quoted(attnjit.cache().string()));
}

bool can_mount() {
  return std::system("unshare -Urm mount -t tmpfs none /tmp >/dev/null 2>&1") == 0;
}

std::string write_records(const CommandLine& attnjit, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    tuner::TuneKey key = tune_key();
    key.device.sm_count += i;
    text += to_json(make_record(key)) + "\n";
  }
  write_file(attnjit.file("records.jsonl"), text);
  return attnjit.file("records.jsonl");
}

TEST_CASE("warmup on a full disk says what is not there") {
  if (!can_mount()) ATTNJIT_SKIP("this user cannot mount a file system");
  const CommandLine attnjit;
  const std::vector<std::string> warmup = small_problem({"warmup", "--json"});
  const Outcome full = attnjit(warmup, {}, small_disk(attnjit, 16));
  CHECK(full.code == 1);
  CHECK(full.json().at("not_kept") == 2);
  CHECK(holds(full.err, "No space left on device"));
  const std::string error = "attnjit: error: ";
  CHECK(full.err.find(error) == full.err.rfind(error));
}

TEST_CASE("records import on a full disk counts what fitted") {
  if (!can_mount()) ATTNJIT_SKIP("this user cannot mount a file system");
  const CommandLine attnjit;
  const std::string records = write_records(attnjit, 32);
  const Outcome part =
      attnjit({"records", "import", "--json", records}, {}, small_disk(attnjit, 64));
  CHECK(part.code == 3);
  CHECK(part.json().at("added") > 0);
  CHECK(part.json().at("not_kept") > 0);
  CHECK(part.json().at("added").get<int>() + part.json().at("not_kept").get<int>() == 32);
}

TEST_CASE("records import keeps the others where one record has a name that no file can have") {
  const CommandLine attnjit;
  std::string text;
  for (const char* name : {"first", "second", "third"}) {
    tuner::TuneKey key = tune_key();
    key.device.name = std::string(name) == "second" ? std::string(300, 'x') : name;
    text += to_json(make_record(key)) + "\n";
  }
  write_file(attnjit.file("records.jsonl"), text);
  const Outcome import = attnjit({"records", "import", attnjit.file("records.jsonl")});
  CHECK(import.code == 3);
  CHECK(holds(import.out, "2 added, 0 replaced, 0 kept as they were, 1 rejected\n"));
  CHECK(holds(import.err, "records.jsonl:2: tuning record: device: name has 300 bytes"));
}

TEST_CASE("a link in the cache's place keeps nothing, and the verbs say so") {
  const CommandLine attnjit;
  std::filesystem::create_directory(attnjit.file("real"));
  std::filesystem::create_directory_symlink(attnjit.file("real"), attnjit.cache());
  const Outcome warm = attnjit(small_problem({"warmup"}));
  CHECK(warm.code == 1);
  CHECK(holds(warm.out, "2 kernels: 2 compiled, 0 from cache, 0 failed, 2 not kept"));
  CHECK(holds(warm.err, "symbolic link"));
  const Outcome import = attnjit({"records", "import", write_records(attnjit, 2)});
  CHECK(import.code == 1);
  CHECK(holds(import.out, "0 added, 0 replaced, 0 kept as they were, 0 rejected, 2 not kept"));
  CHECK(holds(import.err, "symbolic link"));
  CHECK(std::filesystem::is_empty(attnjit.file("real")));
}

TEST_CASE("without a home the verbs say so once; others go on with a warning") {
  const CommandLine attnjit;
  const CommandLine::Variables homeless = {
      {"HOME", ""}, {"XDG_CACHE_HOME", ""}, {"ATTNJIT_CACHE_DIR", ""}};
  const Outcome warm = attnjit(small_problem({"warmup"}), homeless);
  CHECK(warm.code == 1);
  CHECK(holds(warm.err, "warning: HOME names no absolute directory"));
  CHECK(attnjit({"records", "import", write_records(attnjit, 2)}, homeless).code == 1);
  const Outcome facts = attnjit(small_problem({"emit", "--format", "facts"}), homeless);
  CHECK(facts.code == 0);
  CHECK(facts.err.find("HOME") == facts.err.rfind("HOME"));
}

TEST_CASE("a program with rights that its user has not reads no variables") {
  if (::geteuid() != 0) ATTNJIT_SKIP("only root can give a program another group's rights");
  const CommandLine attnjit;
  const std::string program = attnjit.file("program");
  std::filesystem::copy_file(ATTNJIT_BINARY, program);
  struct statvfs system;
  REQUIRE(::statvfs(program.c_str(), &system) == 0);
  if ((system.f_flag & ST_NOSUID) != 0) ATTNJIT_SKIP("files here give no rights");
  const auto says_its_cache = [&] {
    const std::string command =
        fmt::format("ATTNJIT_CACHE_DIR={} {} cache path >{} 2>&1", quoted(attnjit.cache().string()),
                    quoted(program), quoted(attnjit.file("out")));
    CHECK(std::system(command.c_str()) != -1);
    return holds(read_file(attnjit.file("out")), attnjit.cache().string());
  };
  CHECK(says_its_cache());
  REQUIRE(::chown(program.c_str(), 0, 54321) == 0);
  REQUIRE(::chmod(program.c_str(), 02755) == 0);
  CHECK_FALSE(says_its_cache());
}

TEST_CASE("memory only is a usage error for verbs that keep things") {
  const CommandLine attnjit;
  const CommandLine::Variables memory = {{"ATTNJIT_CACHE_DIR", "0"}, {"DISABLE_AUTOTUNE", "0"}};
  const std::string records = write_records(attnjit, 1);
  for (const std::vector<std::string>& line :
       {small_problem({"warmup"}), {"tune"}, {"records", "import", records}}) {
    CAPTURE(line[0]);
    const Outcome outcome = attnjit(line, memory);
    CHECK(outcome.code == 2);
    CHECK(holds(outcome.err, "ATTNJIT_CACHE_DIR=0"));
  }
  CHECK(attnjit(small_problem({"emit", "--format", "facts"}), memory).code == 0);
}

TEST_CASE("a read-only directory that holds all that is asked for is success") {
  if (!can_mount()) ATTNJIT_SKIP("this user cannot mount a file system");
  const CommandLine attnjit;
  const std::string records = write_records(attnjit, 2);
  REQUIRE(attnjit(small_problem({"warmup"})).code == 0);
  REQUIRE(attnjit({"records", "import", records}).code == 0);
  const std::string read_only = fmt::format(
      "unshare -Urm sh -c 'mount --bind \"$0\" \"$0\" && mount -o remount,bind,ro \"$0\" && "
      "exec \"$@\"' {}",
      quoted(attnjit.cache().string()));
  const Outcome warm = attnjit(small_problem({"warmup"}), {}, read_only);
  CHECK(warm.code == 0);
  CHECK(holds(warm.out, "0 compiled, 2 from cache"));
  CHECK(attnjit({"records", "import", records}, {}, read_only).code == 0);
  CHECK(attnjit(small_problem({"warmup", "--causal"}), {}, read_only).code == 2);  // no diagonal
  const Outcome more = attnjit(small_problem({"warmup", "--causal", "top-left"}), {}, read_only);
  CHECK_MESSAGE(more.code == 3, more.err);  // the combine step was there
  CHECK(holds(more.err, "Read-only file system"));
}

TEST_CASE("warmup counts as compiled what this process compiled") {
  const CommandLine attnjit;
  // Both processes plan two kernels; between them they compile two.
  const std::string line = [&] {
    std::string words;
    for (const std::string& word : small_problem({"warmup", "--json"})) words += quoted(word) + " ";
    return words;
  }();
  const std::string one =
      fmt::format("env ATTNJIT_CACHE_DIR={} {} {} >{} &", quoted(attnjit.cache().string()),
                  quoted(ATTNJIT_BINARY), line, quoted(attnjit.file("other")));
  REQUIRE(std::system(one.c_str()) == 0);
  const Outcome own = attnjit(small_problem({"warmup", "--json"}));
  std::string other;
  while (!base::try_parse_json(other = read_file(attnjit.file("other"))).is_object())
    ::usleep(1000);
  CHECK(own.json().at("compiled").get<int>() + base::parse_json(other).at("compiled").get<int>() ==
        2);
}

}  // namespace
}  // namespace attnjit::test
