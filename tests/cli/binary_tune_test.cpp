// tune, warmup and records as their users start them, on a machine without a GPU.
#include <sstream>

#include "command_line.hpp"
#include "tuner/fault_store.hpp"
#include "tuner/space.hpp"
#include "unit/tuner_fixtures.hpp"

namespace attnjit::test::binary_tune_test {
namespace {

constexpr const char* kManifest = R"({"schema": 1, "archs": ["sm_90a"], "problems": [
    {"name": "small", "heads": [16, 4], "head_dim": 128, "seqlens": 1000}]})";

// A record for the problem of kManifest, which a device here would use.
tuner::Record small_record() {
  tuner::TuneKey key = tune_key();
  key.space = tuner::SearchSpace().name();
  return make_record(key);
}

std::string lines(const std::vector<tuner::Record>& records) {
  std::string text;
  for (const tuner::Record& record : records) text += to_json(record) + "\n";
  return text;
}

// The suite runs under DISABLE_AUTOTUNE; these commands do as a user has it.
const CommandLine::Variables kMayTune = {{"DISABLE_AUTOTUNE", "0"}};

TEST_CASE("tune needs a GPU, and refuses under DISABLE_AUTOTUNE") {
  const CommandLine attnjit;
  CHECK(attnjit({"tune"}, kMayTune).code == 7);
  const Outcome disabled = attnjit({"tune"}, {{"DISABLE_AUTOTUNE", "1"}});
  CHECK(disabled.code == 2);
  CHECK(holds(disabled.err, "DISABLE_AUTOTUNE"));
  CHECK(attnjit({"tune"}, {{"DISABLE_AUTOTUNE", "banana"}}).code == 2);
  CHECK(attnjit({"tune", "--backward"}, kMayTune).code == 7);
  CHECK(attnjit({"tune", "--stale"}, kMayTune).code == 7);
  const Outcome html = attnjit({"tune", "--html", "/nonexistent/page.html"}, kMayTune);
  CHECK(html.code == 2);
  CHECK(holds(html.err, "--html: cannot write /nonexistent/page.html"));
  CHECK_FALSE(holds(attnjit({"--help"}).out, "tune-worker"));
  const Outcome worker = attnjit({"tune-worker"}, kMayTune);
  CHECK(worker.code == 7);
}

TEST_CASE("the cache counts and verifies faulty configurations, and clear leaves them") {
  const CommandLine attnjit;
  base::Log log(base::LogLevel::kError);
  tuner::FaultStore store(attnjit.cache(), log);
  const tuner::Fault fault{.id = std::string(64, 'a'), .device = device_class()};
  REQUIRE_FALSE(store.publish(fault));
  CHECK(attnjit({"cache", "stat", "--json"}).json().at("faulty") == 1);
  CHECK(attnjit({"cache", "verify"}).code == 0);
  CHECK(attnjit({"cache", "clear"}).code == 0);
  CHECK(store.list().size() == 1);
  write_file(store.place(fault.id), "{");
  const Outcome damaged = attnjit({"cache", "verify"});
  CHECK(damaged.code == 4);
  CHECK(holds(damaged.out, store.place(fault.id).string()));
}

TEST_CASE("warmup compiles what is missing, and --check says what is") {
  const CommandLine attnjit;
  write_file(attnjit.file("m.json"), kManifest);
  const std::vector<std::string> check = {"warmup", "--manifest", attnjit.file("m.json"),
                                          "--check"};
  const Outcome before = attnjit(check);
  CHECK(before.code == 4);
  CHECK(holds(before.out, "MISSING"));
  CHECK(holds(before.err, "attnjit warmup puts it there"));
  CHECK_FALSE(std::filesystem::exists(attnjit.cache()));

  const Outcome warm = attnjit({"warmup", "--manifest", attnjit.file("m.json"), "--jobs", "2"});
  CHECK(warm.code == 0);
  CHECK(holds(warm.out, "2 kernels: 2 compiled, 0 from cache, 0 failed"));
  CHECK(attnjit(check).code == 0);
  const Outcome again = attnjit({"warmup", "--json", "--manifest", attnjit.file("m.json")});
  CHECK(again.json().at("cached") == 2);
  CHECK(again.json().at("missing") == 0);
  CHECK(attnjit({"warmup", "--manifest", attnjit.file("m.json"), "--arch", "sm_80", "--check"})
            .code == 4);
}

TEST_CASE("warmup never asks the machine for a device") {
  const CommandLine attnjit;
  const Outcome none = attnjit({"warmup", "--head-dim", "32"});
  CHECK(none.code == 2);
  CHECK(holds(none.err, "--arch sm_90a"));
  // The dynamic linker tells what is opened.
  const Outcome traced = attnjit(small_problem({"warmup"}), {{"LD_DEBUG", "files"}});
  CHECK(traced.code == 0);
  CHECK(holds(traced.err, "libnvrtc"));
  CHECK_FALSE(holds(traced.err, "libcuda.so"));
}

TEST_CASE("a process whose kernels are all on disk does not load NVRTC") {
  const CommandLine attnjit;
  const auto loads = [&] {
    const Outcome traced = attnjit(small_problem({"warmup"}), {{"LD_DEBUG", "files"}});
    CHECK(traced.code == 0);
    std::istringstream lines(traced.err);
    for (std::string line; std::getline(lines, line);) {
      if (holds(line, "calling init: ") && holds(line, "libnvrtc")) return true;
    }
    return false;
  };
  CHECK(loads());
  CHECK_FALSE(loads());
}

TEST_CASE("warmup compiles what records ask for, unless tuning is off") {
  const CommandLine attnjit;
  write_file(attnjit.file("m.json"), kManifest);
  write_file(attnjit.file("records.jsonl"), lines({small_record()}));
  REQUIRE(attnjit({"records", "import", attnjit.file("records.jsonl")}).code == 0);
  const std::vector<std::string> warmup = {"warmup", "--json", "--manifest",
                                           attnjit.file("m.json")};
  CHECK(attnjit(warmup, {{"DISABLE_AUTOTUNE", "1"}}).json().at("kernels").size() == 2);
  const auto kernels = attnjit(warmup, kMayTune).json().at("kernels");
  REQUIRE(kernels.size() == 3);  // the combine step is the same
  CHECK(kernels[0].at("from") == "cache");
  CHECK(kernels[2].at("tile").get<std::string>().starts_with("wgmma q64 "));
  CHECK(kernels[2].at("problems")[0] == "small (NVIDIA H200)");
  // There is no such device here, so a call here would not use it.
  const auto plan =
      attnjit({"plan", "--json", "--manifest", attnjit.file("m.json")}, kMayTune).json();
  CHECK(plan.at("plans")[0].at("config_from") == "configuration 0");
  CHECK(holds(plan.at("plans")[0].at("why"), "no device here"));
}

// A deterministic backward whose record a device here would use, on path mma by its bias, whose
// rows are not aligned.
constexpr const char* kBackwardManifest = R"({"schema": 1, "archs": ["sm_90a"], "problems": [
    {"name": "grad", "heads": [16, 4], "head_dim": 128, "seqlens": 1001, "pass": "backward",
     "bias": "11qk", "dbias": true, "deterministic": true}]})";

TEST_CASE("warmup compiles what records of a backward ask for") {
  const CommandLine attnjit;
  write_file(attnjit.file("m.json"), kBackwardManifest);
  tuner::BackwardTuneKey key = backward_tune_key();
  key.plan.family.scores.bias_vectorized = key.plan.family.dbias_vectorized = false;
  key.space = tuner::BackwardSearchSpace().name();
  write_file(attnjit.file("records.jsonl"), to_json(make_record(key)) + "\n");
  REQUIRE(attnjit({"records", "import", attnjit.file("records.jsonl")}).code == 0);
  const auto listed = attnjit({"records", "ls", "--json"}).json().at("records");
  REQUIRE(listed.size() == 1);
  CHECK(listed[0].at("record").at("pass") == "backward");
  CHECK(holds(attnjit({"records", "ls"}).out, " s1 "));  // the tile that it changes
  CHECK(holds(attnjit({"records", "ls"}).out, "backward [bf16 d128 gqa4"));
  CHECK(attnjit({"records", "export"}).out == to_json(make_record(key)) + "\n");
  const std::vector<std::string> check = {"warmup", "--json", "--check", "--manifest",
                                          attnjit.file("m.json")};
  const auto zero = attnjit(check, {{"DISABLE_AUTOTUNE", "1"}}).json().at("kernels");
  const auto both = attnjit(check, kMayTune).json().at("kernels");
  REQUIRE(both.size() == zero.size() + 1);  // the kernel of dk and dv
  CHECK(holds(both.back().at("tile"), " s1 "));
  CHECK(both.back().at("problems")[0] == "grad backward (NVIDIA H200)");
}

TEST_CASE("records can be imported, listed, shown and exported") {
  const CommandLine attnjit;
  CHECK(attnjit({"records", "ls"}).out == "0 records\n");
  tuner::Record other = make_record(tune_key(4096));
  other.verdict = "no_gain";  // with what configuration 0 is not
  write_file(attnjit.file("a.jsonl"), lines({small_record(), other}));
  const Outcome imported = attnjit({"records", "import", attnjit.file("a.jsonl")});
  CHECK(imported.code == 0);
  CHECK(holds(imported.out, "NVIDIA H200 (132 SMs, sm_90a): 2 records"));
  CHECK(holds(imported.out, "2 added, 0 replaced, 0 kept as they were, 0 rejected"));
  CHECK(holds(attnjit({"records", "import", attnjit.file("a.jsonl")}).out, "2 kept"));

  const auto listed = attnjit({"records", "ls", "--json"}).json().at("records");
  REQUIRE(listed.size() == 2);
  const std::string id = listed[0].at("id");
  CHECK(listed[0].at("shipped") == false);
  CHECK(listed[0].at("stale") != listed[1].at("stale"));
  CHECK(holds(attnjit({"records", "ls"}).out, ", stale"));
  const auto all = attnjit({"records", "ls", "--shipped", "--json"}).json().at("records");
  CHECK(all.size() >= listed.size());
  CHECK(all[0] == listed[0]);
  CHECK(holds(attnjit({"records", "ls"}).out, id.substr(0, 12)));
  const Outcome shown = attnjit({"records", "show", id.substr(0, 8)});
  CHECK(shown.code == 0);
  CHECK(shown.json() == listed[0].at("record"));
  CHECK(attnjit({"records", "show", "zz"}).code == 4);
  CHECK(attnjit({"records", "show", ""}).code == 2);

  CHECK(attnjit({"records", "export", "-o", attnjit.file("out.jsonl")}).code == 0);
  CHECK(attnjit({"records", "export"}).out == read_file(attnjit.file("out.jsonl")));
  const CommandLine elsewhere;
  CHECK(elsewhere({"records", "import", attnjit.file("out.jsonl")}).code == 0);
  CHECK(elsewhere({"records", "export"}).out == read_file(attnjit.file("out.jsonl")));
}

TEST_CASE("the less noisy record stays, whichever comes first") {
  tuner::Record quiet = small_record(), noisy = small_record();
  quiet.mad = 0.1;
  const CommandLine attnjit;
  write_file(attnjit.file("quiet.jsonl"), lines({quiet}));
  write_file(attnjit.file("noisy.jsonl"), lines({noisy}));
  CHECK(holds(attnjit({"records", "import", attnjit.file("noisy.jsonl")}).out, "1 added"));
  CHECK(holds(attnjit({"records", "import", attnjit.file("quiet.jsonl")}).out, "1 replaced"));
  CHECK(holds(attnjit({"records", "import", attnjit.file("noisy.jsonl")}).out, "1 kept"));
  for (const bool quiet_first : {true, false}) {
    const Outcome merged =
        attnjit({"records", "merge", attnjit.file(quiet_first ? "quiet.jsonl" : "noisy.jsonl"),
                 attnjit.file(quiet_first ? "noisy.jsonl" : "quiet.jsonl")});
    CHECK(merged.code == 0);
    CHECK(merged.out == lines({quiet}));
  }
}

TEST_CASE("a line that is no record is named, and the others are taken") {
  const CommandLine attnjit;
  write_file(attnjit.file("mixed.jsonl"), "not JSON\n\n" + lines({small_record()}));
  const Outcome outcome = attnjit({"records", "import", attnjit.file("mixed.jsonl")});
  CHECK(outcome.code == 3);
  CHECK(holds(outcome.out, "1 added"));
  CHECK(holds(outcome.err, "mixed.jsonl:1: tuning record: "));
  CHECK(attnjit({"records", "import", "/nonexistent"}).code == 2);
}

}  // namespace
}  // namespace attnjit::test::binary_tune_test
