// Calls that are kept and read again, run on the CPU: the same bits, and right.
#include <doctest/doctest.h>

#include "bench.hpp"
#include "check/call_copy.hpp"
#include "check/call_difference.hpp"
#include "check/call_features.hpp"
#include "check/call_verdict.hpp"
#include "unit/dump_fixtures.hpp"
#include "unit/temp_directory.hpp"

namespace attnjit::executor_test::replay_test {
namespace {

using instance::ProblemSpec;

void run(Bench& bench, dump::HostCall& call) {
  const codegen::Arch& arch = codegen::find_arch("sm_90a");
  call.clear_outputs();
  if (call.call().backward()) {
    const BackwardArgs& args = call.call().backward_args();
    const auto problem = problem::make_problem(args);
    const auto key = problem::plan_key(problem);
    const auto plan =
        launch::make_backward_plan_spec(key.family, zero(key, arch, "{}"), arch, bench.templates());
    return bench.executor().backward(plan, problem, args);
  }
  const ForwardArgs& args = call.call().forward_args();
  const auto problem = problem::make_problem(args);
  const auto key = problem::plan_key(problem);
  const auto plan =
      launch::make_forward_plan_spec(key.family, zero(key, arch, "{}"), arch, bench.templates());
  bench.executor().forward(plan, problem, args);
}

// The call of `host` in memory of its own, with its mask prepared where the spec says so.
dump::HostCall host_call(Bench& bench, const instance::HostProblem& host) {
  executor::PreparedCall prepared(bench.executor(), bench.templates());
  if (!host.spec().prepare_mask) {
    const dump::Call call = test::call_of(host);
    return check::copy_call(call, check::views_of(call));
  }
  BackwardArgs args;
  if (host.spec().backward) args = host.backward_args();
  args.forward = host.args();
  prepared.prepare(args.forward, host.spec().backward);
  const dump::Call call = host.spec().backward ? dump::Call(args) : dump::Call(args.forward);
  return check::copy_call(call, check::views_of(call));
}

void expect_same(const ProblemSpec& spec) {
  CAPTURE(instance::describe(spec));
  Bench bench;
  const test::TempDirectory temp;
  const instance::HostProblem host(spec, 1);
  dump::HostCall made = host_call(bench, host);
  run(bench, made);
  const auto file = dump::CallFile::open(test::write_dump(temp.path(), made.call()));
  dump::HostCall replayed = file.load(test::kDumpMemory);
  run(bench, replayed);
  CHECK(check::differences(replayed, file.load_results().value()).empty());
  const check::CallVerdict verdict = check::judge_call(replayed, 1);
  CAPTURE(verdict.text);
  CHECK(verdict.pass);
}

const ProblemSpec kSmall = {
    .batch = 2, .heads_q = 4, .heads_kv = 2, .seqlen_q = 70, .seqlen_kv = 144, .head_dim = 64};

TEST_CASE("replay: a prepared mask, in both passes, and by keys alone") {
  ProblemSpec spec = kSmall;
  spec.mask = "1gqk";
  spec.prepare_mask = true;
  expect_same(spec);
  spec.backward = true;
  expect_same(spec);
  spec.backward = false;
  spec.mask = "b11k";
  expect_same(spec);
}

TEST_CASE("replay: the mask that a prepared one was made from comes back") {
  Bench bench;
  ProblemSpec spec = kSmall;
  spec.seqlen_kv = 333;
  spec.mask = "bhqk";
  spec.prepare_mask = true;
  const instance::HostProblem host(spec, 1);
  const auto plain = check::with_plain_mask(host_call(bench, host), 1);
  REQUIRE(plain);
  const Tensor got = plain->call().forward_args().mask.value(), want = host.args().mask.value();
  REQUIRE(got.shape == want.shape);
  const auto bytes = [](const Tensor& mask) {
    auto packed = dump::packed(mask, dump::fetch_from_host);
    for (std::byte& each : packed) each = std::byte{each != std::byte{0}};
    return packed;
  };
  CHECK(bytes(got) == bytes(want));
}

TEST_CASE("replay: pages, of which some are in use") {
  ProblemSpec spec = kSmall;
  spec.page_size = 16;
  spec.tail_mask = "b";
  spec.seqlen_q = 5;
  spec.use_seqlens_kv = true;
  spec.seqlens_kv = {37, 144};
  expect_same(spec);
}

TEST_CASE("replay: packed sequences, expressions and every gradient") {
  ProblemSpec spec = kSmall;
  spec.packed = true;
  spec.cu_seqlens_q = {0, 30, 70};
  spec.cu_seqlens_kv = {0, 100, 144};
  spec.use_sink = spec.want_row_max = spec.want_max_logits = true;
  expect_same(spec);
  ProblemSpec gradients = kSmall;
  gradients.backward = gradients.want_dlse = true;
  gradients.bias = "bhqk";
  gradients.want_dbias = gradients.use_sink = gradients.want_dsink = true;
  expect_same(gradients);
  ProblemSpec said = kSmall;
  said.score = "s + a[h, j]";
  said.operands = {{.name = "a", .dtype = DType::kFloat32, .axes = {"h", "k"}}};
  said.backward = true;
  said.grad = {"a"};
  expect_same(said);
}

}  // namespace
}  // namespace attnjit::executor_test::replay_test
