#include "launch/backward_arguments.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "attnjit/error.hpp"
#include "launch/tensor_maps.hpp"
#include "tuner/config_zero.hpp"
#include "unit/backward_fixtures.hpp"

using namespace attnjit;

namespace launch_backward_arguments_test {
using codegen::BackwardTunables;
using codegen::DbiasMethod;
using codegen::DqMethod;
using launch::BackwardArguments;
using launch::BackwardStep;
using test::backward_args;
using test::bias_args;
using test::fake_address;

namespace {

// A call with its plan: configuration 0 of sm_90a, unless `change` alters it.
struct Call {
  BackwardArgs args;
  problem::BackwardProblem problem;
  launch::BackwardPlanSpec spec;
  launch::BackwardLayout layout;

  explicit Call(
      const BackwardArgs& a, void (*change)(BackwardTunables&) = [](BackwardTunables&) {})
      : args(a), problem(problem::make_problem(a)) {
    const codegen::Arch& arch = codegen::find_arch("sm_90a");
    const problem::BackwardPlanKey key = problem::plan_key(problem);
    BackwardTunables tunables = tuner::config_zero(key, arch);
    change(tunables);
    REQUIRE(codegen::why_unfit(tunables, key.family, arch) == std::nullopt);
    spec = launch::make_backward_plan_spec(key.family, tunables, arch, codegen::TemplateSet());
    layout = launch::workspace_layout(spec, problem);
  }
  BackwardArguments arguments() const {
    return {spec, problem, args, layout, workspace(), launch::encode_nothing};
  }
  void* workspace() const { return fake_address(30); }
  std::vector<BackwardStep> kinds() const {
    std::vector<BackwardStep> list;
    for (const auto& step : spec.steps) list.push_back(step.kind);
    return list;
  }
};

BackwardArgs everything() {
  ForwardArgs forward = test::forward_args();
  forward.mask = test::mask(forward, "bgqk");
  forward.seqlens_q = fake_address<std::int32_t>(6);
  forward.seqlens_kv = fake_address<std::int32_t>(7);
  forward.window = {5, 3};
  forward.diagonal = Diagonal::kBottomRight;
  forward.scale = -2.0f;
  return bias_args("1hqk", forward);
}

BackwardArgs deterministic(BackwardArgs args) {
  args.deterministic = true;
  return args;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t total = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++total;
  }
  return total;
}

}  // namespace

TEST_CASE("the steps of a backward, in order") {
  using enum BackwardStep;
  const auto kinds = [](const BackwardArgs& args, auto... change) {
    return Call(args, change...).kinds();
  };
  CHECK(kinds(backward_args()) == std::vector{kPreprocess, kDkv, kDqSum, kDkSum, kDvSum});
  CHECK(kinds(deterministic(backward_args())) == std::vector{kPreprocess, kDkv, kDqSum});
  CHECK(kinds(everything()) ==
        std::vector{kMaskToBits, kPreprocess, kDkv, kDqSum, kDkSum, kDvSum, kBiasSum});
  CHECK(kinds(deterministic(everything())) ==
        std::vector{kMaskToBits, kPreprocess, kDkv, kDqSum, kBiasSum});
  CHECK(kinds(deterministic(everything()), [](BackwardTunables& t) {
          t.dbias_method = codegen::DbiasMethod::kKernel;
        }) == std::vector{kMaskToBits, kPreprocess, kDkv, kDqSum, kDbias, kBiasSum});
  CHECK(kinds(bias_args("bhqk"), [](BackwardTunables& t) { t.split = false; }) ==
        std::vector{kPreprocess, kDkv, kDqSum});
  CHECK(kinds(bias_args("bhq1")) ==
        std::vector{kPreprocess, kDkv, kDqSum, kDkSum, kDvSum, kBiasSum});
}

TEST_CASE("every step is handed as many parameters as its kernel names, and no null among them") {
  std::vector<BackwardArgs> calls = {backward_args(), everything()};
  for (const char* pattern : {"bhqk", "1hqk", "11qk", "bh1k", "111k", "bhq1", "1111"}) {
    calls.push_back(bias_args(pattern));
  }
  for (std::size_t i = 0; i < calls.size(); ++i) {
    for (const bool same_bits : {false, true}) {
      calls[i].deterministic = same_bits;
      const Call call(calls[i]);
      BackwardArguments arguments = call.arguments();
      for (std::size_t s = 0; s < call.spec.steps.size(); ++s) {
        CAPTURE(call.spec.steps[s].source.title);
        const std::size_t named = count(call.spec.steps[s].source.stub, "__grid_constant__");
        std::size_t handed = 0;
        while (handed < 7 && arguments.parameters(s)[handed] != nullptr) ++handed;
        CHECK(handed == named);
      }
    }
  }
}

TEST_CASE("parameters come in the order in which the kernels name them") {
  const Call call(everything());
  BackwardArguments arguments = call.arguments();
  const auto& values = arguments.values();
  const std::vector<const void*> dkv = {&values.dkv,
                                        &values.dkv_dbias,
                                        &values.features.seqlens,
                                        &values.features.bias,
                                        &values.features.backward_mask,
                                        &values.features.band};
  CHECK(std::equal(dkv.begin(), dkv.end(), arguments.parameters(BackwardStep::kDkv)));
  const Call exact(deterministic(everything()));
  BackwardArguments own = exact.arguments();
  const auto& v = own.values();
  const auto& f = v.features;
  const std::vector<const void*> dq = {&v.dq, &f.seqlens, &f.bias, &f.backward_mask, &f.band};
  CHECK(std::equal(dq.begin(), dq.end(), own.parameters(BackwardStep::kDq)));
  const std::vector<const void*> dbias = {&v.dbias, &v.planes,        &v.dbias_dbias, &f.seqlens,
                                          &f.bias,  &f.backward_mask, &f.band};
  CHECK(std::equal(dbias.begin(), dbias.end(), own.parameters(BackwardStep::kDbias)));
}

TEST_CASE("a step is found by its kind and by its index alike") {
  const Call call(everything());
  BackwardArguments arguments = call.arguments();
  for (std::size_t i = 0; i < call.spec.steps.size(); ++i) {
    const BackwardStep kind = call.spec.steps[i].kind;
    CHECK(arguments.runs(i) == arguments.runs(kind));
    CHECK(&arguments.shape(i) == &arguments.shape(kind));
    CHECK(arguments.parameters(i) == arguments.parameters(kind));
    if (arguments.runs(i)) CHECK(arguments.shape(i).block == call.spec.steps[i].threads);
    CHECK(arguments.shape(i).grid[1] == 1);
    CHECK(arguments.shape(i).grid[2] == 1);
  }
  CHECK_FALSE(arguments.runs(BackwardStep::kDq));  // not part of this plan
}

TEST_CASE("addresses, strides and sizes reach the kernels") {
  const Call call(everything());
  const BackwardArguments arguments = call.arguments();
  const auto& v = arguments.values();
  CHECK(v.dkv.base.q == call.args.forward.q.data);
  CHECK(v.dkv.base.dout == call.args.dout.data);
  CHECK(v.dkv.base.dk == call.args.dk.data);
  CHECK(v.dkv.base.dv_strides.head == call.args.dv.strides[1]);
  CHECK(v.dkv.base.padded_rows == 128);
  CHECK(v.dkv.base.num_q_tiles == 128 / call.spec.dkv.block_q);
  CHECK(v.dkv.base.num_kv_tiles == (192 + call.spec.dkv.block_kv - 1) / call.spec.dkv.block_kv);
  CHECK(v.dkv.base.scale == -2.0f);
  CHECK(v.dkv.base.exponent_scale == kernel::kLog2E);  // the bias is added to scaled scores
  CHECK(v.features.band.left == 5);
  CHECK(v.features.seqlens.kv == call.args.forward.seqlens_kv);
  CHECK(v.features.bias.heads_per_plane == 1);
  CHECK(v.features.backward_mask.bits.heads_per_plane == 4);
  CHECK(v.preprocess.lse == call.args.forward.lse);
  CHECK(v.preprocess.out == call.args.forward.out.data);
  CHECK(v.bias_sum.target == call.args.dbias->data);
  const BackwardArguments plain = Call(backward_args()).arguments();
  CHECK(plain.values().dkv.base.exponent_scale ==
        doctest::Approx(kernel::kLog2E / 8.0f));  // 1 / sqrt(64), folded
}

TEST_CASE("splits appear where the grid is small, and never in a deterministic call") {
  const ForwardArgs small = test::forward_args(
      {.batch = 1, .heads_q = 1, .heads_kv = 1, .seqlen_q = 8192, .seqlen_kv = 256});
  const Call split(backward_args(small));
  CHECK(split.layout.grid.splits > 1);
  CHECK(split.arguments().runs(BackwardStep::kDkSum));
  CHECK(split.arguments().values().dkv.base.num_splits == split.layout.grid.splits);
  const Call whole(backward_args());
  CHECK(whole.layout.grid.splits == 1);
  CHECK_FALSE(whole.arguments().runs(BackwardStep::kDkSum));
  CHECK(Call(deterministic(backward_args(small))).layout.grid.splits == 1);
}

// 132 SMs hold a thread block each.
TEST_CASE("queries are split by how many of them the keys see") {
  const auto splits = [](int heads, int seqlen, void (*change)(ForwardArgs&)) {
    ForwardArgs args = test::forward_args({.batch = 1,
                                           .heads_q = heads,
                                           .heads_kv = heads,
                                           .seqlen_q = seqlen,
                                           .seqlen_kv = seqlen,
                                           .head_dim = 128});
    change(args);
    return Call(backward_args(args)).layout.grid.splits;
  };
  const auto full = [](ForwardArgs&) {};
  const auto causal = [](ForwardArgs& a) {
    a.causal = true;
    a.diagonal = Diagonal::kTopLeft;
  };
  const auto window = [](ForwardArgs& a) {
    a.window = {200, 0};
    a.diagonal = Diagonal::kTopLeft;
  };
  // 128 tiles of keys fill the device, and the first of them see twice the mean.
  CHECK(splits(4, 4096, full) == 1);
  CHECK(splits(4, 4096, causal) == 2);
  // Few queries see a tile of keys, whose shares would be empty but for one.
  CHECK(splits(2, 4096, window) == 1);
  CHECK(splits(2, 4096, full) == 2);
  // Twice as many tiles as thread blocks that run at a time level out by themselves.
  CHECK(splits(16, 4096, causal) == 1);
}

TEST_CASE("the kernel of dbias shares batch elements out where its tiles are few") {
  const auto call = [](int batch, int seqlen) {
    return Call(deterministic(bias_args("1hqk", test::forward_args({.batch = batch,
                                                                    .heads_q = 4,
                                                                    .heads_kv = 4,
                                                                    .seqlen_q = seqlen,
                                                                    .seqlen_kv = seqlen}))));
  };
  const Call small = call(2048, 49);
  BackwardArguments arguments = small.arguments();
  const int shares = small.layout.grid.dbias_shares;
  CHECK(shares > 16);
  CHECK(arguments.shape(BackwardStep::kDbias).grid[0] == 4u * static_cast<unsigned>(shares));
  CHECK(arguments.values().dbias_dbias.shares == shares);
  CHECK(arguments.values().dbias_dbias.data == arguments.values().bias_sum.partials);
  CHECK(arguments.values().bias_sum.batch.partials == shares);
  CHECK(arguments.runs(BackwardStep::kBiasSum));
  const Call large = call(8, 4096);
  BackwardArguments whole = large.arguments();
  CHECK(large.layout.grid.dbias_shares == 1);
  CHECK(whole.values().dbias_dbias.data == large.args.dbias->data);
  CHECK_FALSE(whole.runs(BackwardStep::kBiasSum));
}

TEST_CASE("long key tiles of several heads take turns under a causal mask alone") {
  ForwardArgs forward = test::forward_args({.seqlen_q = 2048, .seqlen_kv = 2048});
  CHECK(Call(backward_args(forward)).layout.grid.section_planes == 1);
  forward.causal = true;
  forward.diagonal = Diagonal::kTopLeft;
  CHECK(Call(backward_args(forward)).layout.grid.section_planes > 1);
  forward.window = {8, 0};
  CHECK(Call(backward_args(forward)).layout.grid.section_planes == 1);
}

TEST_CASE("tiles of keys that wait for each other are one of many heads at a time") {
  ForwardArgs forward = test::forward_args(
      {.batch = 16, .heads_q = 16, .heads_kv = 16, .seqlen_q = 512, .seqlen_kv = 512});
  const auto section = [&forward](bool ordered) {
    BackwardArgs args = backward_args(forward);
    args.deterministic = ordered;
    const Call call(args, [](BackwardTunables& t) {
      if (t.split) t.dq_method = DqMethod::kFirstStores;
    });
    CHECK(call.spec.dkv.orders_dq());
    CHECK(call.layout.grid.zeros_ahead == 0);
    CHECK(call.layout.dq_sum < call.layout.sums);
    const BackwardArguments arguments = call.arguments();
    CHECK(arguments.values().dq_sum.dq_semaphores == arguments.values().dkv.dq_semaphores);
    CHECK(arguments.values().dkv.base.last_keys_first == 0);
    return call.layout.grid.section_planes * call.layout.grid.kv_tiles / call.spec.block_slots;
  };
  CHECK(section(false) == 1);
  CHECK(section(true) == 1);
  forward.causal = true;
  forward.diagonal = Diagonal::kBottomRight;
  CHECK(section(false) == 1);
}

TEST_CASE("under a causal mask places go down, or up where they would wait long for turns") {
  struct Order {
    bool last_keys, last_queries;
    std::int32_t heads;
    std::int64_t planes;
    bool operator==(const Order&) const = default;
  };
  const auto order = [](std::int32_t heads_kv, std::int32_t seqlen, std::int32_t head_dim,
                        bool ordered) {
    ForwardArgs forward = test::forward_args({.batch = 16,
                                              .heads_q = 16,
                                              .heads_kv = heads_kv,
                                              .seqlen_q = seqlen,
                                              .seqlen_kv = seqlen,
                                              .head_dim = head_dim,
                                              .head_dim_v = head_dim});
    forward.causal = true;
    forward.diagonal = Diagonal::kBottomRight;
    BackwardArgs args = backward_args(forward);
    args.deterministic = ordered;
    const Call call(args);
    const launch::BackwardArguments arguments = call.arguments();
    const auto& base = arguments.values().dkv.base;
    return Order{base.last_keys_first != 0, base.last_queries_first != 0, base.heads_abreast,
                 base.section_planes};
  };
  CHECK(order(16, 2048, 128, false) == Order{false, true, 1, 8});
  CHECK(order(4, 2048, 128, false) == Order{false, true, 4, 4});
  CHECK(order(4, 8192, 128, false) == Order{false, true, 4, 2});
  CHECK(order(16, 2048, 128, true) == Order{false, true, 1, 8});
  CHECK(order(4, 8192, 128, true) == Order{false, true, 4, 2});
  CHECK(order(16, 8192, 128, true) == Order{true, false, 1, 4});
  CHECK(order(16, 2048, 64, true) == Order{true, false, 1, 32});
}

TEST_CASE("packed sequences under a causal mask go through four kv heads by turns") {
  ForwardArgs forward = test::forward_args({.batch = 1, .heads_q = 16, .seqlen_q = 16384});
  forward.cu_seqlens_q = forward.cu_seqlens_kv = test::fake_address<std::int32_t>(40);
  forward.num_sequences = 64;
  const auto planes = [&] {
    return Call(backward_args(forward)).arguments().values().dkv.base.section_planes;
  };
  CHECK(planes() == 1);
  forward.causal = true;
  forward.diagonal = Diagonal::kBottomRight;
  CHECK(planes() == 4);
}

TEST_CASE("elements of the batch that share a bias take the same tile of keys one after another") {
  const auto section = [](const char* bias, std::int64_t inner = 0) {
    BackwardArgs args = bias_args(
        bias, test::forward_args(
                  {.batch = 6, .heads_q = 4, .heads_kv = 4, .seqlen_q = 2048, .seqlen_kv = 2048}));
    args.forward.bias_order.inner = inner;
    const Call call(args);
    CHECK(call.arguments().values().dkv.base.section_planes == call.layout.grid.section_planes);
    return call.layout.grid.section_planes;
  };
  CHECK(section("1hqk") == 6);
  CHECK(section("shqk") == 2);
  CHECK(section("shqk", 1) == 6);
  CHECK(section("bhqk") == 1);
}

TEST_CASE("sums of dq become zeros a section ahead, but for the first sections") {
  const auto ahead = [](std::int32_t batch, std::int32_t seqlen) {
    const Call call(backward_args(test::forward_args(
        {.batch = batch, .heads_q = 16, .heads_kv = 16, .seqlen_q = seqlen, .seqlen_kv = seqlen})));
    CHECK(call.spec.tunables.dq_method == DqMethod::kAdd);
    CHECK(call.arguments().values().dkv.zeros_ahead == call.layout.grid.zeros_ahead);
    return call.layout.grid.zeros_ahead;
  };
  CHECK(ahead(8, 2048) == 9);  // 132 SMs have the 16 tiles of 8.25 planes
  CHECK(ahead(2, 8192) == 3);
  CHECK(ahead(1, 2048) == 9);
  CHECK(ahead(1, 16384) == 2);
  BackwardArgs shared =
      bias_args("1hqk", test::forward_args({.batch = 8, .seqlen_q = 2048, .seqlen_kv = 2048}));
  CHECK(Call(shared).layout.grid.zeros_ahead == 0);  // planes are not in the order of places
}

TEST_CASE("sections of more planes than 32 bits count have a place each in the workspace") {
  for (const std::int64_t heads : {1, 8}) {
    const Call call(backward_args(test::forward_args({.batch = 2147483647,
                                                      .heads_q = heads,
                                                      .heads_kv = heads,
                                                      .seqlen_q = 4096,
                                                      .seqlen_kv = 4096})));
    const auto& [grid, zeroed, end] =
        std::tie(call.layout.grid, call.layout.zeroed, call.layout.dq_sum);
    REQUIRE(grid.zeros_ahead > 0);
    CHECK(end - zeroed >= static_cast<std::size_t>(4 * grid.kv_planes / grid.section_planes));
  }
}

TEST_CASE("without rows sums are still set to zero, and without keys dq is") {
  const Call no_rows(bias_args("bh1k", test::forward_args({.seqlen_q = 0})));
  BackwardArguments arguments = no_rows.arguments();
  CHECK(arguments.runs(BackwardStep::kDkv));
  CHECK_FALSE(arguments.runs(BackwardStep::kDqSum));
  CHECK(arguments.shape(BackwardStep::kPreprocess).grid[0] == 1);
  CHECK(arguments.values().preprocess.num_row_blocks == 0);
  CHECK(arguments.runs(BackwardStep::kBiasSum));
  const Call no_keys(backward_args(test::forward_args({.seqlen_kv = 0})));
  CHECK_FALSE(no_keys.arguments().runs(BackwardStep::kDkv));
  CHECK(no_keys.arguments().runs(BackwardStep::kDqSum));
  const Call no_batch(bias_args("1hqk", test::forward_args({.batch = 0})));
  CHECK(no_batch.arguments().values().preprocess.num_row_blocks == 0);
  CHECK(no_batch.arguments().runs(BackwardStep::kBiasSum));
}

TEST_CASE("a grid that no launch can have is refused, by name") {
  const ForwardArgs many = test::forward_args(
      {.batch = std::int64_t{1} << 20, .heads_q = 64, .heads_kv = 64, .seqlen_q = 4096});
  CHECK_THROWS_WITH_AS(
      Call(backward_args(many)).arguments(),
      doctest::Contains("backward_preprocess needs 4294967296 thread blocks; at most 2147483647"),
      Error);
}

}  // namespace launch_backward_arguments_test
