#include "command_line.hpp"

namespace attnjit::test {
namespace {

TEST_CASE("explain says what binds a call, what its features cost and what to try") {
  const CommandLine attnjit;
  const std::vector<std::string> call = {"explain",    "--batch",  "4",       "--heads-q", "16",
                                         "--seqlen-q", "4096",     "--mask",  "b1qk",      "--bias",
                                         "bhqk",       "--causal", "top-left"};
  const Outcome text = attnjit(call);
  CHECK_MESSAGE(text.code == 0, text.err);
  for (const char* line : {"kernels    mask_to_bits, attn_fwd; wgmma q128", "time       ",
                           "on NVIDIA H200", "by         ", "binds      ", "costs      mask: ",
                           "costs      bias: ", "try        prepare the mask once",
                           "try        if all batch elements have the same bias, pass size 1"}) {
    CHECK_MESSAGE(holds(text.out, line), line, " is not in\n", text.out);
  }
  std::vector<std::string> as_json = call;
  as_json.push_back("--json");
  const base::Json problem = attnjit(as_json).json()["problems"][0];
  CHECK(problem["expected_ms"].get<double>() > 0.5);
  CHECK(problem["bytes"]["bias"] == 4.0 * 16 * 4096 * 4096 * 2);
  CHECK(problem["costs"].size() == 3);
  CHECK(problem["actions"][0]["counted_ms"].get<double>() > 0);
}

TEST_CASE("explain tells savings as a share of the time without, and which features cost little") {
  const CommandLine attnjit;
  const Outcome outcome =
      attnjit({"explain", "--heads-q", "64", "--heads-kv", "8", "--seqlen-q", "8192", "--head-dim",
               "64", "--causal", "bottom-right", "--window", "127,0", "--sink"});
  CHECK_MESSAGE(outcome.code == 0, outcome.err);
  const std::string saves = "saves      causal window: ";
  const std::size_t place = outcome.out.find(saves);
  REQUIRE_MESSAGE(place != std::string::npos, outcome.out);
  const std::size_t share = outcome.out.find('(', place) + 1;
  CHECK(std::stoi(outcome.out.substr(share)) > 80);
  CHECK(std::stoi(outcome.out.substr(share)) < 100);
  CHECK(holds(outcome.out, "costs      less than a hundredth: sinks"));
}

TEST_CASE("explain reads lines that a recorder wrote, and says what keeps a call from wgmma") {
  const CommandLine attnjit;
  write_file(attnjit.file("calls.jsonl"),
             "{\"name\": \"odd\", \"heads\": 16, \"seqlens\": 4096, \"head_dim\": 63}\n"
             "{\"name\": \"dense\", \"heads\": 16, \"seqlens\": 4096, \"head_dim\": 64}\n");
  const Outcome outcome = attnjit({"explain", "--manifest", attnjit.file("calls.jsonl")});
  CHECK_MESSAGE(outcome.code == 0, outcome.err);
  CHECK(holds(outcome.out, "path mma: wgmma"));
  CHECK(holds(outcome.out,
              "try        pad the columns of q and k to 64 and of v to 64 with zeros, with "
              "scale=0.125988"));
  CHECK(holds(outcome.out, "\ndense\n"));
}

TEST_CASE("explain names a problem that is none and goes on") {
  const CommandLine attnjit;
  write_file(attnjit.file("calls.jsonl"),
             "{\"name\": \"wide\", \"heads\": 16, \"seqlens\": 4096, \"head_dim\": 512}\n"
             "{\"name\": \"dense\", \"heads\": 16, \"seqlens\": 4096, \"head_dim\": 64}\n");
  const Outcome outcome = attnjit({"explain", "--manifest", attnjit.file("calls.jsonl")});
  CHECK(outcome.code == 3);
  CHECK(holds(outcome.err, "wide: "));
  CHECK(holds(outcome.out, "dense\n"));
}

}  // namespace
}  // namespace attnjit::test
