#include "base/json.hpp"
#include "command_line.hpp"
#include "skip.hpp"

namespace attnjit::test {
namespace {

const CommandLine::Variables kWithGpu = {{"CUDA_VISIBLE_DEVICES", "0"}};

std::vector<std::string> small_bench(std::vector<std::string> more) {
  std::vector<std::string> line = {"bench", "--heads-q",  "2", "--seqlen-q",
                                   "64",    "--head-dim", "32"};
  line.insert(line.end(), more.begin(), more.end());
  return line;
}

TEST_CASE("bench writes no results while autotuning is disabled") {
  const CommandLine attnjit;
  const std::string results = attnjit.file("results.json");
  const Outcome refused = attnjit(small_bench({"-o", results}), {{"DISABLE_AUTOTUNE", "1"}});
  CHECK(refused.code == 2);
  CHECK(refused.err.find("DISABLE_AUTOTUNE is set") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(results));
  const Outcome shown = attnjit(small_bench({}), {{"DISABLE_AUTOTUNE", "1"}});
  CHECK(shown.err.find("DISABLE_AUTOTUNE is set") != std::string::npos);
}

TEST_CASE("bench times a problem on the GPU, where there is one") {
  const CommandLine attnjit;
  const std::string results = attnjit.file("results.json");
  const auto line = small_bench({"--mask", "b1qk", "-o", results, "--git", "abc", "--json"});
  CommandLine::Variables variables = kWithGpu;
  variables["DISABLE_AUTOTUNE"] = "0";
  variables["ATTNJIT_AUTOTUNE"] = "cached";  // nothing is tuned in tests
  const Outcome outcome = attnjit(line, variables);
  if (outcome.code == 7) ATTNJIT_SKIP("this machine has no GPU");
  CAPTURE(outcome.err);
  REQUIRE(outcome.code == 0);
  const auto report = outcome.json();
  CHECK(report == base::parse_json(read_file(results)));
  CHECK(report.at("git") == "abc");
  CHECK(report.at("device").at("sms") > 0);
  const auto& row = report.at("rows").at(0);
  CHECK(row.at("round_ms").size() == report.at("rounds"));
  CHECK(row.at("ms") > 0);
  CHECK(row.at("workspace_bytes") > 0);  // of the packed mask
  CHECK_FALSE(row.at("tile").get<std::string>().empty());
}

TEST_CASE("bench runs the path that it is told to, where there is a GPU") {
  const CommandLine attnjit;
  const auto row = [&](const char* path) -> base::Json {
    CommandLine::Variables variables = kWithGpu;
    variables["ATTNJIT_AUTOTUNE"] = "cached";
    const auto line = {"bench", "--seqlen-q", "256", "--head-dim", "64", "--json", "--path", path};
    const Outcome outcome = attnjit({line.begin(), line.end()}, variables);
    if (outcome.code == 7) return nullptr;
    CHECK(outcome.json().at("path") == path);
    return outcome.json().at("rows").at(0);
  };
  const base::Json mma = row("mma");
  if (mma.is_null()) ATTNJIT_SKIP("this machine has no GPU");
  CHECK(mma.at("config_from") == "--path");
  CHECK(mma.at("tile").get<std::string>().starts_with("q"));
  const base::Json wgmma = row("wgmma");
  if (wgmma.contains("error")) {
    CHECK(wgmma.at("error").get<std::string>().find("does not exist on") != std::string::npos);
  } else {
    CHECK(wgmma.at("tile").get<std::string>().starts_with("wgmma"));
  }
}

}  // namespace
}  // namespace attnjit::test
