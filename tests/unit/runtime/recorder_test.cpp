#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include "runtime/call/plan_maker.hpp"
#include "runtime/call/problem_recorder.hpp"
#include "unit/cache_fixtures.hpp"
#include "unit/fake_device.hpp"
#include "unit/forward_fixtures.hpp"
#include "unit/runtime_fixtures.hpp"
#include "unit/temp_directory.hpp"

using namespace attnjit;
using attnjit::test::FakeDevice;
using attnjit::test::TempDirectory;
using runtime::ProblemRecorder;

namespace {

// Notes `line` as a process of its own would.
void note(const std::filesystem::path& file, const std::string& line) {
  base::Log log;
  ProblemRecorder(file, log).note(line);
}

}  // namespace

TEST_CASE("ATTNJIT_RECORD collects a line for each plan, and several processes collect it once") {
  const TempDirectory temp;
  const FakeDevice device;
  const std::string file = (temp / "problems.jsonl").string();
  const auto problem = problem::make_problem(
      test::forward_args({.batch = 1, .seqlen_q = 60, .head_dim = 16, .head_dim_v = 16}));
  for (int process = 0; process < 3; ++process) {
    runtime::Engine engine(test::environment({{"ATTNJIT_CACHE_DIR", (temp / "cache").string()},
                                              {"XDG_RUNTIME_DIR", temp.path().string()},
                                              {"ATTNJIT_RECORD", file},
                                              {"DISABLE_AUTOTUNE", "1"}}));
    runtime::PlanMaker(engine).make(*device, problem, problem::plan_key(problem),
                                    runtime::Tuning::kForbidden);
  }
  const std::string text = test::slurp(file);
  CHECK(text.starts_with("{\"name\":"));
  CHECK(text.find("\"heads\":[32,8]") != std::string::npos);
  CHECK(text.find('\n') == text.size() - 1);
}

TEST_CASE("a line that is part of another one is not there yet") {
  const TempDirectory temp;
  const auto file = temp / "problems.jsonl";
  for (const char* line : {"abab", "ab", "b", "abab", "b"}) note(file, line);
  CHECK(test::slurp(file) == "abab\nab\nb\n");
}

TEST_CASE("a torn last line is ended before the next one") {
  const TempDirectory temp;
  const auto file = temp / "problems.jsonl";
  test::spill(file, "first\ntor");
  note(file, "tor");
  CHECK(test::slurp(file) == "first\ntor\ntor\n");
}

TEST_CASE("a file that cannot be written, or has grown too large, costs one warning") {
  const TempDirectory temp;
  test::KeepingLog kept;
  base::Log& log = kept.log();
  ProblemRecorder nowhere(temp / "absent" / "problems.jsonl", log);
  nowhere.note("a");
  nowhere.note("b");
  REQUIRE(kept.warnings().size() == 1);
  CHECK(kept.warnings().front().find("cannot append") != std::string::npos);

  const auto file = temp / "problems.jsonl";
  test::spill(file, "first\n");
  std::filesystem::resize_file(file, ProblemRecorder::kMaxBytes + 1);
  ProblemRecorder full(file, log);
  full.note("a");
  full.note("b");
  REQUIRE(kept.warnings().size() == 2);
  CHECK(kept.warnings().back().find("move it away") != std::string::npos);
  CHECK(std::filesystem::file_size(file) == ProblemRecorder::kMaxBytes + 1);
}
