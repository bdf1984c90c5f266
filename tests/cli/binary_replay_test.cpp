// attnjit replay --on cpu, as its users start it, on dumps that were written here.
#include "cli/report/head_table.hpp"
#include "command_line.hpp"
#include "instance/forward_results.hpp"
#include "problem/manifest_line.hpp"
#include "tensor/half.hpp"
#include "unit/dump_fixtures.hpp"

namespace attnjit::test::replay_test {

using instance::ProblemSpec;

TEST_CASE("offsets in tiles are told as runs") {
  CHECK(cli::offsets_in_tile({0, 1, 2, 65, 67, 131}, 64) == "0-3");
  CHECK(cli::offsets_in_tile({5, 64, 200}, 64) == "0, 5, 8");
  std::vector<std::int64_t> even;
  for (std::int64_t row = 0; row < 64; row += 2) even.push_back(row);
  CHECK(cli::offsets_in_tile(even, 64).ends_with("20, 22, ..."));
}

#ifdef ATTNJIT_HAS_EXECUTOR

const std::string kForwardConfig =
    R"({"path": "mma", "num_stages": 1, "block_q": 64, "block_kv": 32})";
const std::string kBackwardConfig =
    R"({"split": false, "dkv": {"path": "mma", "block_q": 32, "block_kv": 64, "num_stages": 1}})";

const ProblemSpec kForward = {
    .batch = 2, .heads_q = 4, .heads_kv = 2, .seqlen_q = 150, .seqlen_kv = 120, .head_dim = 64};
ProblemSpec backward_spec() {
  ProblemSpec spec = kForward;
  spec.seqlen_q = 90;
  spec.bias = "11qk";
  spec.want_dbias = true;
  spec.backward = true;
  return spec;
}

// Dumps a call of `spec`, whose forward's results are right; `change` may touch them.
template <class Change>
std::filesystem::path dump_of(const std::filesystem::path& folder, const ProblemSpec& spec,
                              const Change& change) {
  const instance::HostProblem host(spec, 1);
  if (!spec.backward) instance::write_forward_results(host.args(), 1);
  change(host.args());
  dump::Origin origin = {.library = "test", .device = "a device", .arch = "sm_90a", .number = 1};
  origin.config = spec.backward ? kBackwardConfig : kForwardConfig;
  origin.problem = spec.backward ? problem::describe(problem::make_problem(host.backward_args()))
                                 : problem::describe(problem::make_problem(host.args()));
  REQUIRE_FALSE(dump::why_no_folder(folder));
  dump::CallWriter writer(folder, "000001.test", call_of(host), dump::fetch_from_host);
  REQUIRE(writer.write_call(origin).ok());
  // A backward's gradients were not computed.
  if (!spec.backward) REQUIRE(writer.write_results().ok());
  return writer.call_file();
}
std::filesystem::path dump_of(const std::filesystem::path& folder, const ProblemSpec& spec) {
  return dump_of(folder, spec, [](const ForwardArgs&) {});
}

TEST_CASE("replay runs the calls of a dump and judges what they give and gave") {
  const CommandLine attnjit;
  const std::filesystem::path folder = attnjit.file("calls");
  dump_of(folder, kForward);
  const Outcome outcome = attnjit({"replay", folder.string(), "--on", "cpu", "--json"});
  CAPTURE(outcome.err);
  CHECK(outcome.code == 0);
  CHECK(outcome.json().at("device") == "CPU executor");
  const auto result = outcome.json().at("results").at(0);
  CHECK(result.at("name") == "000001.test.call");
  CHECK(result.at("pass") == true);
  CHECK(result.at("returned") == true);
  CHECK(result.at("worst_ratio") < 1);
  CHECK(result.at("recorded_worst_ratio") < 1);
  CHECK(result.at("bits_differ").at("out") > 0);  // the reference rounds otherwise
  const std::string config = result.at("config");
  CHECK(holds(config, "\"block_q\":64,\"block_kv\":32,\"num_stages\":1"));
  const Outcome other = attnjit({"replay", folder.string(), "--on", "cpu", "--json", "--config",
                                 R"({"path": "mma", "block_kv": 64})"});
  const std::string changed = other.json().at("results").at(0).at("config");
  CHECK(holds(changed, "\"block_kv\":64"));

  std::filesystem::remove(folder / "000001.test.results");
  const Outcome lost = attnjit({"replay", folder.string(), "--on", "cpu"});
  CHECK(lost.code == 0);
  CHECK(holds(lost.out, "recorded: the call never returned"));
}

TEST_CASE("exit 4: replay finds rows that were wrong when a call was recorded") {
  const CommandLine attnjit;
  const std::filesystem::path folder = attnjit.file("calls");
  dump_of(folder, kForward, [](const ForwardArgs& args) {
    for (const std::int64_t row : {3, 67, 131}) {
      const std::int64_t at = args.out.strides[1] * 2 + args.out.strides[2] * row;
      tensor::store(args.out.data, args.out.dtype, at, 9.0);
    }
  });
  const Outcome outcome = attnjit({"replay", folder.string(), "--on", "cpu"});
  CAPTURE(outcome.out);
  CHECK(outcome.code == 4);
  CHECK(holds(outcome.out, "FAIL  000001.test.call"));
  CHECK(holds(outcome.out, "wrong rows modulo 64"));
  CHECK(holds(outcome.out, "batch 0 head 2    147      3  3"));
  CHECK(holds(outcome.out, "7 other heads"));
}

TEST_CASE("replay finds a planted race and shrinks its call to a tile") {
  const CommandLine attnjit;
  dump_of(attnjit.file("calls"), kForward);
  const CommandLine::Variables race = {
      {"ATTNJIT_TEMPLATE_DIR",
       attnjit.changed_templates("forward/mma/kernel.cuh",
                                 "ptx::block_sync();  // V has arrived; all warps have read this K",
                                 "")}};
  const Outcome outcome = attnjit({"replay", attnjit.file("calls"), "--on", "cpu", "--json",
                                   "--shrink", "-o", attnjit.file("small")},
                                  race);
  CAPTURE(outcome.err);
  CHECK(outcome.code == 4);
  const auto result = outcome.json().at("results").at(0);
  const std::string text = result.at("text"), problem = result.at("smallest").at("problem");
  CHECK(holds(text, "with no barrier of the block in between"));
  CAPTURE(problem);
  CHECK(problem.starts_with("bf16 b1 h1/1 "));
  const auto line = base::parse_json(std::string(result.at("smallest").at("manifest_line")));
  CHECK(line.at("seqlens").at(0) <= 64);
  CHECK(line.at("seqlens").at(1) <= 64);
  // What is left fails again, and not with the kernels as they are.
  CHECK(attnjit({"replay", attnjit.file("small"), "--on", "cpu"}, race).code == 4);
  CHECK(attnjit({"replay", attnjit.file("small"), "--on", "cpu"}).code == 0);
}

TEST_CASE("replay finds a planted scale and shrinks its call to a tile") {
  const CommandLine attnjit;
  dump_of(attnjit.file("calls"), backward_spec());
  const CommandLine::Variables scale = {
      {"ATTNJIT_TEMPLATE_DIR",
       attnjit.changed_templates("backward/mma/dkv.cuh",
                                 "stage_rows(k_tile(), dk, k_share(), params.scale);",
                                 "stage_rows(k_tile(), dk, k_share(), 1.0f);")}};
  const std::vector<std::string> line = {"replay", attnjit.file("calls"), "--on", "cpu"};
  std::vector<std::string> shrink = line;
  shrink.insert(shrink.end(), {"--json", "--shrink"});
  const Outcome outcome = attnjit(shrink, scale);
  CAPTURE(outcome.err);
  CHECK(outcome.code == 4);
  const auto result = outcome.json().at("results").at(0);
  const std::string text = result.at("text"), problem = result.at("smallest").at("problem");
  CHECK(text.starts_with("dk:\n"));
  CHECK(result.at("returned") == false);
  CAPTURE(problem);
  // Of one key dk is 0.
  CHECK(holds(problem, "b1 h1/1 lq1 lk2 d64"));
  CHECK_FALSE(holds(problem, "bias"));
  const Outcome table = attnjit(line, scale);
  CHECK(holds(table.out, "dk"));
  CHECK(holds(table.out, "wrong rows modulo 64"));
  CHECK(holds(table.out, "0-63"));  // every row of every tile: no race
  CHECK(attnjit(line).code == 0);
}

TEST_CASE("replay refuses what is no dump, by name, and goes on with the next call") {
  const CommandLine attnjit;
  const std::filesystem::path folder = attnjit.file("calls");
  dump_of(folder, kForward);
  write_file(folder / "000000.cut.call",
             "\x89"
             "ATC");
  const Outcome outcome = attnjit({"replay", folder.string(), "--on", "cpu"});
  CHECK(outcome.code == 3);
  CHECK(holds(outcome.err, "000000.cut.call: it is shorter than a header"));
  CHECK(holds(outcome.out, "PASS  000001.test.call"));
  CHECK(holds(outcome.out, "1 of 2 passed"));
  CHECK(attnjit({"replay", (folder / "absent").string(), "--on", "cpu"}).code == 2);
  CHECK(attnjit({"replay", folder.string(), "--on", "cpu", "-o", "x"}).code == 2);
  std::filesystem::create_directory(folder / "empty");
  const Outcome empty = attnjit({"replay", (folder / "empty").string(), "--on", "cpu"});
  CHECK(empty.code == 2);
  CHECK(holds(empty.err, "it holds no calls"));
}

#endif

}  // namespace attnjit::test::replay_test
