#include "command_line.hpp"
#include "skip.hpp"

namespace attnjit::test::binary_run_test {
namespace {

const CommandLine::Variables kWithGpu = {{"CUDA_VISIBLE_DEVICES", "0"}};

std::vector<std::string> small_run(std::vector<std::string> more) {
  std::vector<std::string> line = {"run",        "--on", "gpu",        "--heads-q", "2",
                                   "--seqlen-q", "64",   "--head-dim", "32"};
  line.insert(line.end(), more.begin(), more.end());
  return line;
}

TEST_CASE("run judges a problem on the GPU, where there is one") {
  const CommandLine attnjit;
  const Outcome outcome = attnjit(small_run({"--mask", "b1qk", "--json"}), kWithGpu);
  if (outcome.code == 7) ATTNJIT_SKIP("this machine has no GPU");
  CAPTURE(outcome.err);
  CHECK(outcome.code == 0);
  const auto result = outcome.json().at("results").at(0);
  CHECK(result.at("pass") == true);
  CHECK(result.at("rows") == 64);
  CHECK(result.at("rough_ms") > 0);
}

TEST_CASE("run --time has a table of errors, microseconds and paths") {
  const CommandLine attnjit;
  const Outcome outcome = attnjit(small_run({"--time"}), kWithGpu);
  if (outcome.code == 7) ATTNJIT_SKIP("this machine has no GPU");
  CHECK(outcome.code == 0);
  CHECK(holds(outcome.out, "error / allowed"));
  const auto timed = attnjit(small_run({"--time", "--json"}), kWithGpu).json().at("results").at(0);
  CHECK(timed.at("us") > 0);
  CHECK(timed.at("path").is_string());
}

TEST_CASE("exit 4: run finds a kernel that computes something else") {
  const CommandLine attnjit;
  CommandLine::Variables variables = kWithGpu;
  // The factor from log2 units to the natural logarithm of lse.
  variables["ATTNJIT_TEMPLATE_DIR"] =
      attnjit.changed_templates("types.h", "kLn2 = 0.6931471805599453f", "kLn2 = 0.7f");
  const Outcome outcome = attnjit(small_run({}), variables);
  if (outcome.code == 7) ATTNJIT_SKIP("this machine has no GPU");
  CHECK(outcome.code == 4);
  CHECK(outcome.out.find("FAIL") != std::string::npos);
  CHECK(outcome.out.find("lse") != std::string::npos);
}

}  // namespace
}  // namespace attnjit::test::binary_run_test
