// attnjit tune on a real device, with candidates that hang there or end its context.
#include "base/json.hpp"
#include "cli/command_line.hpp"
#include "gpu.hpp"

namespace attnjit {
namespace {

using test::CommandLine;
using test::Outcome;

// One candidate of 64 columns writes where nothing is, another never ends.
std::string faulty_templates(const CommandLine& attnjit) {
  const std::string begin = "ATTNJIT_DEVICE void locate() {";
  return attnjit.changed_templates("forward/mma/tiles.cuh", begin, begin + R"(
    if constexpr (kConfig.block_kv == 32) asm volatile("st.global.u32 [%0], 0;" ::"l"(8ull));
    if constexpr (kStages == 3 && kConfig.block_q == 64) {
      for (;;) asm volatile("nanosleep.u32 1000;");
    }
)");
}

// The result of the only problem. `flags` are further ones of tune.
base::Json tune(const CommandLine& attnjit, const std::string& templates,
                const std::vector<std::string>& flags) {
  std::vector<std::string> arguments = {"tune",       "--json", "--heads-q",  "8",
                                        "--heads-kv", "2",      "--seqlen-q", "500",
                                        "--head-dim", "64"};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  const Outcome outcome = attnjit(arguments, {{"CUDA_VISIBLE_DEVICES", "0"},
                                              {"DISABLE_AUTOTUNE", "0"},
                                              {"ATTNJIT_TEMPLATE_DIR", templates}});
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  return outcome.json().at("results").at(0);
}

void expect_right(gpu_test::Gpu& gpu) {
  instance::HostProblem problem(
      {.batch = 1, .heads_q = 2, .heads_kv = 2, .seqlen_q = 70, .seqlen_kv = 70}, 4);
  const check::Verdict verdict = gpu_test::run(gpu.context, *gpu.driver, problem);
  INFO(verdict.text);
  CHECK(verdict.pass);
}

TEST_CASE("tuning: candidates that hang or end the context are left out, and never tried again") {
  ATTNJIT_NEED_GPU(gpu);
  expect_right(gpu);
  const CommandLine attnjit;
  const std::string templates = faulty_templates(attnjit);
  const base::Json first = tune(attnjit, templates, {});
  REQUIRE_MESSAGE(first.contains("faults"), first.dump());
  REQUIRE(first.at("faults").size() == 2);
  int hung = 0;
  for (const base::Json& fault : first.at("faults")) {
    const std::string why = fault.at("why");
    MESSAGE(fault.at("config").get<std::string>(), ": ", why);
    hung += why.find("did not answer") != std::string::npos ? 1 : 0;
  }
  CHECK(hung == 1);
  const base::Json again = tune(attnjit, templates, {"--force"});
  CHECK_FALSE(again.contains("faults"));
  CHECK(attnjit({"cache", "stat", "--json"}).json().at("faulty") == 2);
  CHECK(attnjit({"cache", "verify"}).code == 0);
  expect_right(gpu);  // the context of another process is as it was
}

}  // namespace
}  // namespace attnjit
