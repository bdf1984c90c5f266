#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "attnjit/error.hpp"
#include "codegen/kernels/rows.hpp"
#include "launch/forward_arguments.hpp"
#include "launch/grid.hpp"
#include "launch/mask_tiles.hpp"
#include "launch/tensor_maps.hpp"
#include "unit/forward_fixtures.hpp"

using namespace attnjit;
using attnjit::test::bias;
using attnjit::test::fake_address;
using attnjit::test::forward_args;
using attnjit::test::mask;
using launch::encode_nothing;
using launch::ForwardArguments;
using launch::ForwardPlanSpec;
using problem::Extent;

namespace {

// A call with its plan; the tile is 64 queries by 32 keys.
struct Call {
  ForwardArgs args;
  problem::Problem problem;
  ForwardPlanSpec spec;

  explicit Call(const ForwardArgs& a) : args(a), problem(problem::make_problem(a)) {
    const problem::Family family = problem::family(problem);
    spec = launch::make_forward_plan_spec(
        family, {.block_q = 64, .block_kv = 32, .num_stages = 2, .num_warps = 4, .min_blocks = 1},
        codegen::find_arch("sm_90a"), codegen::TemplateSet());
  }
  void* workspace() const { return fake_address(9); }
  launch::WorkspaceLayout layout() const { return launch::workspace_layout(spec, problem); }
};

ForwardArgs everything() {
  ForwardArgs args = forward_args();
  args.mask = mask(args, "bgqk");
  args.bias = bias(args, "1hqk");
  args.seqlens_q = fake_address<std::int32_t>(6);
  args.seqlens_kv = fake_address<std::int32_t>(7);
  args.lse = fake_address<float>(8);
  args.window = {5, 3};
  args.diagonal = Diagonal::kBottomRight;
  args.scale = -2.0f;
  return args;
}

}  // namespace

TEST_CASE("a plain call runs one step with one parameter") {
  Call call(forward_args());
  REQUIRE(call.spec.steps.size() == 2);
  CHECK(call.spec.steps[1].source.entry == "attn_fwd_combine");
  CHECK(call.spec.steps[0].source.entry == "attn_fwd");
  CHECK(call.spec.steps[0].threads == 128);
  CHECK(call.spec.steps[0].shared_bytes ==
        unsigned(codegen::forward_mma_config(call.spec.family, call.spec.tunables).shared_bytes()));
  CHECK(launch::workspace_layout(call.spec, call.problem).bytes == 0);
  ForwardArguments arguments(call.spec, call.problem, call.args, call.layout(), nullptr,
                             encode_nothing);
  CHECK(arguments.runs(0));
  CHECK_FALSE(arguments.runs(1));
  CHECK(arguments.shape(0).grid[0] == 4 * 32 * 2);
  CHECK(arguments.shape(0).grid[1] == 1);
  CHECK(arguments.shape(0).grid[2] == 1);
  CHECK(arguments.shape(0).block == 128);
  CHECK(arguments.parameters(0)[0] == &arguments.values().forward);
  CHECK(arguments.parameters(0)[1] == nullptr);
}

TEST_CASE("parameters come in the order in which the kernel names its features") {
  Call call(everything());
  ForwardArguments arguments(call.spec, call.problem, call.args, call.layout(), call.workspace(),
                             encode_nothing);
  const auto& values = arguments.values();
  REQUIRE(call.spec.steps.size() == 3);
  CHECK(call.spec.steps[0].source.entry == "mask_to_bits");
  CHECK(arguments.parameters(0)[0] == &values.mask_to_bits);
  const auto& features = values.features;
  const std::vector<const void*> expected = {&values.forward, &features.seqlens, &features.bias,
                                             &features.bit_mask, &features.band};
  for (std::size_t i = 0; i < expected.size(); ++i)
    CHECK(arguments.parameters(1)[i] == expected[i]);
}

TEST_CASE("a mask or bias per query is read in place") {
  ForwardArgs args = forward_args();
  args.mask = mask(args, "bgq1");
  args.bias = bias(args, "b1q1");
  Call call(args);
  REQUIRE(call.spec.steps.size() == 2);
  CHECK(launch::workspace_layout(call.spec, call.problem).bytes == 0);
  ForwardArguments arguments(call.spec, call.problem, call.args, call.layout(), nullptr,
                             encode_nothing);
  const auto& values = arguments.values();
  CHECK(arguments.parameters(0)[1] == &values.features.bias);
  CHECK(arguments.parameters(0)[2] == &values.features.row_mask);
  CHECK(arguments.parameters(0)[3] == nullptr);
  CHECK(values.features.row_mask.data == args.mask->data);
  CHECK(values.features.row_mask.heads_per_plane == 4);
  CHECK(values.features.row_mask.query_stride == args.mask->strides[2]);
  CHECK(values.features.row_mask.key_stride == 0);
  CHECK(values.features.bias.heads_per_plane == 32);
  CHECK(values.features.bias.head_stride == 0);
}

TEST_CASE("operands tell how many batch elements share a plane, and have no more planes") {
  ForwardArgs args = forward_args();
  args.mask = mask(args, "s1qk");
  args.bias = bias(args, "shqk");
  Call call(args);
  ForwardArguments arguments(call.spec, call.problem, call.args, call.layout(), call.workspace(),
                             encode_nothing);
  const auto& features = arguments.values().features;
  CHECK(features.bias.batches_per_plane == 2);
  CHECK(features.bit_mask.batches_per_plane == 2);
  CHECK(features.bit_mask.planes_per_batch == 1);
  CHECK(features.bias.cycle.period == 1u);
  // Two planes of 128 queries; a thread block packs 64 of them and up to 512 keys.
  CHECK(arguments.shape(0).grid[0] == 2u * (128 / 64));
}

TEST_CASE("operands tell which of their planes repeat") {
  ForwardArgs args = forward_args({.batch = 8});
  args.mask = mask(args, "s1qk");
  args.bias = bias(args, "shqk");
  args.mask_order = {.inner = 1};
  args.bias_order = {.inner = 1, .cycle = 2};
  Call call(args);
  ForwardArguments arguments(call.spec, call.problem, call.args, call.layout(), call.workspace(),
                             encode_nothing);
  const auto planes = [](const auto& params) {
    std::vector<int> list;
    for (int b = 0; b < 8; ++b) {
      list.push_back(params.cycle.plane_of(b / params.batches_per_plane));
    }
    return list;
  };
  const auto& features = arguments.values().features;
  CHECK(planes(features.bit_mask) == std::vector{0, 1, 2, 3, 0, 1, 2, 3});
  CHECK(planes(features.bias) == std::vector{0, 1, 0, 1, 2, 3, 2, 3});
}

TEST_CASE("the values of the forward kernel") {
  Call call(everything());
  ForwardArguments arguments(call.spec, call.problem, call.args, call.layout(), call.workspace(),
                             encode_nothing);
  const kernel::ForwardParams& p = arguments.values().forward.base;
  CHECK(p.q == call.args.q.data);
  CHECK(p.k == call.args.k.data);
  CHECK(p.v == call.args.v.data);
  CHECK(p.out == call.args.out.data);
  CHECK(p.lse == call.args.lse);
  CHECK(p.q_strides.head == call.args.q.strides[1]);
  CHECK(p.v_strides.row == call.args.v.strides[2]);
  CHECK(p.num_heads_q == 32);
  CHECK(p.seqlen_q == 128);
  CHECK(p.seqlen_kv == 192);
  CHECK(p.num_q_tiles == 2);
  // The scores are scaled before the bias comes: the exponent takes log2(e) alone.
  CHECK(p.score_scale == -2.0f);
  CHECK(p.exponent_scale == kernel::kLog2E);
  CHECK(arguments.values().features.band.left == 5);
  CHECK(arguments.values().features.band.right == 3);
  CHECK(arguments.values().features.band.bottom_right == 1);
  CHECK(arguments.values().features.seqlens.q == call.args.seqlens_q);
  CHECK(arguments.values().features.seqlens.kv == call.args.seqlens_kv);
  CHECK(arguments.values().features.bias.heads_per_plane == 1);
  CHECK(arguments.values().features.bias.batch_stride == 0);

  Call plain(forward_args());
  ForwardArguments late(plain.spec, plain.problem, plain.args, plain.layout(), nullptr,
                        encode_nothing);
  CHECK(late.values().forward.base.exponent_scale == 0.125f * kernel::kLog2E);
}

TEST_CASE("the polynomial of a softcap is tanh up to the cap, and of no use where its powers are") {
  const auto of = [](float softcap, float scale) {
    ForwardArgs args = forward_args();
    args.softcap = softcap;
    args.scale = scale;
    Call call(args);
    return ForwardArguments(call.spec, call.problem, call.args, call.layout(), call.workspace(),
                            encode_nothing)
        .values()
        .features.softcap;
  };
  for (const auto& [softcap, scale] :
       {std::pair{50.0f, 0.125f}, {2.0f, -0.3f}, {0.01f, 1.0f}, {1e3f, 0.5f}}) {
    CAPTURE(softcap);
    CAPTURE(scale);
    const kernel::SoftcapParams p = of(softcap, scale);
    CHECK(p.ratio == 1.0f / softcap);
    CHECK(p.most * std::fabs(scale / softcap) == doctest::Approx(1.0));
    for (int i = 1; i <= 100; ++i) {
      const float score = p.most * static_cast<float>(i) / 100, square = score * score;
      float ratio = square + p.near[4];
      for (int j = 3; j >= 0; --j) ratio = std::fma(ratio, square, p.near[j]);
      const double x = double{scale} / softcap * score;
      CHECK(std::fabs(ratio * p.lead / (std::tanh(x) / x) - 1.0) < 0x1p-19);
    }
  }
  for (const auto& [softcap, scale] :
       {std::pair{1e-30f, 1.0f}, {1e30f, 1.0f}, {50.0f, 0.0f}, {1e-4f, 1e38f}}) {
    const kernel::SoftcapParams p = of(softcap, scale);
    CHECK(p.most == 0.0f);
    CHECK(std::isfinite(p.ratio));
    CHECK(p.lead == 0.0f);
  }
}

TEST_CASE("the bit mask has a plane per batch element and head of the mask") {
  struct Case {
    std::string pattern;
    std::int64_t planes;
    int rows, q_tiles, planes_per_batch, heads_per_plane;
  };
  for (const Case& c : {Case{"bhqk", 128, 128, 2, 32, 1}, Case{"bgqk", 32, 128, 2, 8, 4},
                        Case{"1gqk", 8, 128, 2, 0, 4}, Case{"b11k", 4, 1, 1, 1, 32},
                        Case{"111k", 1, 1, 1, 0, 32}}) {
    CAPTURE(c.pattern);
    ForwardArgs args = forward_args();
    args.mask = mask(args, c.pattern);
    Call call(args);
    const launch::MaskTiles tiles(call.problem.mask);
    CHECK(tiles.planes == c.planes);
    CHECK(tiles.rows == c.rows);
    CHECK(tiles.q_tiles == c.q_tiles);
    // 192 keys are six words; rows have fours of them.
    CHECK(tiles.kv_tiles == 4);
    CHECK(tiles.words_per_row == 8);
    ForwardArguments arguments(call.spec, call.problem, call.args, call.layout(), call.workspace(),
                               encode_nothing);
    const auto& values = arguments.values();
    CHECK(arguments.shape(0).grid[0] == c.planes * c.q_tiles);
    CHECK(values.features.bit_mask.planes_per_batch == c.planes_per_batch);
    CHECK(values.features.bit_mask.heads_per_plane == c.heads_per_plane);
    CHECK(values.features.bit_mask.words == values.mask_to_bits.words);
    CHECK(values.features.bit_mask.classes == values.mask_to_bits.classes);
    CHECK(values.features.bit_mask.words_per_plane == c.rows * 8);
    CHECK(values.features.bit_mask.classes_per_plane == c.q_tiles * 4);
    CHECK(values.mask_to_bits.num_heads == call.problem.mask.num_heads);
  }
}

TEST_CASE("a prepared mask is read where it is, by the same kernel without a prepass") {
  ForwardArgs args = forward_args();
  args.prepared_mask = {.data = fake_address(9), .shape = {4, 8, 128, 192}, .for_backward = true};
  Call call(args);
  REQUIRE(call.spec.steps.size() == 2);
  CHECK(launch::workspace_layout(call.spec, call.problem).bytes == 0);
  const ForwardArguments arguments(call.spec, call.problem, call.args, call.layout(), nullptr,
                                   encode_nothing);
  const kernel::BitMaskParams& bits = arguments.values().features.bit_mask;
  CHECK(bits.words == args.prepared_mask->data);
  // Behind the bits by rows and by keys of 32 planes.
  CHECK(reinterpret_cast<const char*>(bits.classes) -
            static_cast<const char*>(args.prepared_mask->data) ==
        32 * (128 * 8 * 4 + 2 * 256 * 8));
  CHECK(bits.words_per_plane == 128 * 8);
  CHECK(bits.planes_per_batch == 8);
  CHECK(bits.heads_per_plane == 4);
  args.mask = mask(args, "bgqk");
  args.prepared_mask.reset();
  Call bytes(args);
  CHECK(bytes.spec.steps[1].source.text == call.spec.steps[0].source.text);
}

TEST_CASE("a prepared mask may lie at any address of the device") {
  constexpr std::uintptr_t kLast = std::uintptr_t{0} - 16;
  ForwardArgs args = forward_args();
  args.prepared_mask = {
      .data = reinterpret_cast<void*>(kLast), .shape = {1, 1, 128, 192}, .for_backward = true};
  Call call(args);
  const ForwardArguments arguments(call.spec, call.problem, call.args, call.layout(), nullptr,
                                   encode_nothing);
  const kernel::BitMaskParams& bits = arguments.values().features.bit_mask;
  CHECK(reinterpret_cast<std::uintptr_t>(bits.classes) == kLast + 128 * 8 * 4 + 2 * 256 * 8);
}

TEST_CASE("the workspace holds words and classes, and nothing for nothing") {
  ForwardArgs args =
      forward_args({.batch = 3, .heads_q = 8, .heads_kv = 8, .seqlen_q = 65, .seqlen_kv = 33});
  args.mask = mask(args, "bhqk");
  const Call call(args);
  const auto layout = launch::workspace_layout(call.spec, call.problem);
  // 24 planes of 65 rows of 4 words are 24960 bytes; 2 by 2 tiles a plane are 96.
  CHECK(layout.mask == 0);
  CHECK(layout.bytes == 25088);
  const ForwardArguments arguments(call.spec, call.problem, call.args, call.layout(),
                                   call.workspace(), encode_nothing);
  CHECK(reinterpret_cast<std::uintptr_t>(arguments.values().mask_to_bits.classes) -
            reinterpret_cast<std::uintptr_t>(call.workspace()) ==
        24960);
}

TEST_CASE("a mask of many planes is counted in 64 bits") {
  ForwardArgs args = forward_args({.batch = 64, .seqlen_q = 32768, .seqlen_kv = 32768});
  args.mask = mask(args, "bhqk");
  const Call call(args);
  const auto layout = launch::workspace_layout(call.spec, call.problem);
  const std::size_t words = std::size_t{64} * 32 * 32768 * 1024, tiles = words / 64 / 2;
  CHECK(layout.bytes == words * 4 + tiles);
}

TEST_CASE("keys are split until the device is full, and the splits are added up") {
  ForwardArgs args = forward_args({.batch = 2,
                                   .heads_q = 8,
                                   .heads_kv = 2,
                                   .seqlen_q = 3,
                                   .seqlen_kv = 65536,
                                   .head_dim = 64,
                                   .head_dim_v = 40});
  args.lse = fake_address<float>(8);
  const Call call(args);
  const launch::ForwardGrid grid = launch::forward_grid(call.spec, call.problem);
  CHECK(grid.planes == 16);
  CHECK(grid.q_tiles == 1);
  CHECK(call.spec.block_slots == 264);  // of 128 threads, two have 255 registers each
  CHECK(grid.splits == 16);
  ForwardArguments arguments(call.spec, call.problem, call.args, call.layout(), call.workspace(),
                             encode_nothing);
  CHECK(arguments.shape(0).grid[0] == 16 * 16);
  CHECK(arguments.runs(1));
  CHECK(arguments.shape(1).grid[0] == 2 * 8 * 3);  // a row each
  CHECK(arguments.shape(1).block == unsigned(call.spec.combine.num_threads()));
  CHECK(arguments.shape(1).shared_bytes == unsigned(call.spec.combine.shared_bytes()));
  const auto& [forward, combine] =
      std::pair{arguments.values().forward.base, arguments.values().combine};
  CHECK(arguments.parameters(1)[0] == &arguments.values().combine);
  CHECK(forward.num_splits == 16);
  CHECK(combine.num_splits == 16);
  CHECK(combine.partial_out == forward.partial_out);
  CHECK(combine.partial_lse == forward.partial_lse);
  CHECK(combine.out == call.args.out.data);
  CHECK(combine.lse == call.args.lse);
  CHECK(combine.out_strides.head == call.args.out.strides[1]);
  // 48 rows of 16 splits: 48 columns each, 40 of them used, and a logarithm.
  CHECK(call.layout().partial_lse == 48 * 16 * 48 * 4);
  CHECK(call.layout().bytes == 48 * 16 * 48 * 4 + 48 * 16 * 4);
}

TEST_CASE("a row that is the only one has fewer splits than the device has room for") {
  constexpr launch::SplitCosts kCosts{.start = 2, .combine = 6, .shares_per_tile = 128};
  CHECK(launch::choose_splits(1, 16384, 1056, kCosts) == 1024);  // the most there may be
  CHECK(launch::choose_splits(1, 1024, 1056, kCosts) == 512);    // 2 + 2 + 6 + 4, for 1 + 2 + 6 + 8
  CHECK(launch::choose_splits(1, std::int64_t{1} << 33, 1056, kCosts) == 1024);
  CHECK(launch::choose_splits(1, 8, 1056, kCosts) == 8);
  CHECK(launch::choose_splits(1, 6, 1056, kCosts) == 1);
  CHECK(launch::choose_splits(8, 4096, 1056, kCosts) == 132);
  CHECK(launch::choose_splits(1056, 4096, 1056, kCosts) == 1);
  CHECK(launch::choose_splits(0, 4096, 1056, kCosts) == 1);
}

TEST_CASE("largest scores of rows go through the splits to the caller, or to those of heads") {
  const test::Sizes split{
      .batch = 2, .heads_q = 8, .heads_kv = 2, .seqlen_q = 3, .seqlen_kv = 65536};
  for (const bool splits : {true, false}) {
    for (const bool rows : {true, false}) {
      CAPTURE(splits);
      CAPTURE(rows);
      ForwardArgs args = forward_args(splits ? split : test::Sizes{});
      if (rows) args.row_max = fake_address<float>(8);
      args.max_logits = fake_address<float>(7);
      const Call call(args);
      REQUIRE(call.spec.steps.size() == 3);
      CHECK(call.spec.steps[2].source.entry == "max_logits");
      CHECK(call.spec.steps[2].overlaps);
      ForwardArguments arguments(call.spec, call.problem, call.args, call.layout(),
                                 call.workspace(), encode_nothing);
      const auto& values = arguments.values();
      const auto at = [&](std::size_t offset) {
        return reinterpret_cast<float*>(static_cast<std::byte*>(call.workspace()) + offset);
      };
      const float* const target = rows ? args.row_max : at(call.layout().row_max);
      CHECK(values.max_logits.row_max == target);
      CHECK(values.max_logits.max_logits == args.max_logits);
      CHECK(values.features.row_max.target ==
            (splits ? at(call.layout().partial_row_max) : target));
      CHECK(values.combine.row_max == (splits ? target : nullptr));
      CHECK(arguments.parameters(2)[0] == &values.max_logits);
      CHECK(arguments.shape(2).grid[0] == unsigned(call.problem.num_heads_q));
      CHECK((call.layout().bytes == 0) == (rows && !splits));
    }
  }
  ForwardArgs args = forward_args();
  args.row_max = fake_address<float>(8);
  const Call call(args);
  const ForwardArguments arguments(call.spec, call.problem, call.args, call.layout(), nullptr,
                                   encode_nothing);
  CHECK_FALSE(arguments.runs(2));
}

TEST_CASE("the largest scores of heads without rows are a step alone") {
  ForwardArgs args = forward_args();
  args.q.shape[2] = args.out.shape[2] = 0;
  args.max_logits = fake_address<float>(7);
  const Call call(args);
  const ForwardArguments arguments(call.spec, call.problem, call.args, call.layout(), nullptr,
                                   encode_nothing);
  CHECK(call.layout().bytes == 0);
  CHECK_FALSE(arguments.runs(0));
  CHECK_FALSE(arguments.runs(1));
  CHECK(arguments.runs(2));
  CHECK(arguments.values().max_logits.batch == 0);
  CHECK(arguments.values().max_logits.seqlen_q == 1);
}

TEST_CASE("thread blocks of an SM are told from launch bounds and shared memory") {
  const codegen::Arch& arch = codegen::find_arch("sm_90a");
  const auto blocks = [&](int warps, int min_blocks, int block_kv, int head_dim = 64) {
    problem::Family family;
    family.head_dim = family.head_dim_v = head_dim;
    const codegen::ForwardTunables tunables{.block_q = 16 * warps,
                                            .block_kv = block_kv,
                                            .num_stages = 1,
                                            .num_warps = warps,
                                            .min_blocks = min_blocks};
    const kernel::ForwardMmaConfig config = codegen::forward_mma_config(family, tunables);
    return launch::blocks_per_sm(config, config.shared_bytes(), arch);
  };
  CHECK(blocks(8, 1, 32) == 1);  // 255 registers for 256 threads are all that there are
  CHECK(blocks(8, 2, 32) == 2);
  CHECK(blocks(4, 1, 32) == 2);
  CHECK(blocks(4, 3, 32) == 3);
  CHECK(blocks(4, 1, 512) == 1);  // 152 KiB of shared memory
  CHECK(blocks(1, 4, 32) == 8);
  CHECK(blocks(1, 4, 32, 256) == 5);  // 41 KiB
}

TEST_CASE("a full device splits nothing, and no split is without a tile") {
  for (const std::int64_t batch : {1, 2, 4, 16, 64, 256}) {
    for (const std::int64_t keys : {1, 31, 33, 100, 512, 4096, 100000}) {
      const Call call(forward_args(
          {.batch = batch, .heads_q = 8, .heads_kv = 8, .seqlen_q = 1, .seqlen_kv = keys}));
      const launch::ForwardGrid grid = launch::forward_grid(call.spec, call.problem);
      CAPTURE(batch);
      CAPTURE(keys);
      CHECK(grid.splits >= 1);
      CHECK(grid.splits <= (keys + 31) / 32);
      if (grid.planes >= 8 * call.spec.block_slots) CHECK(grid.splits == 1);
      if (keys <= 32) CHECK(grid.splits == 1);
    }
  }
}

TEST_CASE("row tiles of several planes take turns under a causal mask, as far as L2 holds them") {
  ForwardArgs args = forward_args({.batch = 4,
                                   .heads_q = 32,
                                   .heads_kv = 8,
                                   .seqlen_q = 8192,
                                   .seqlen_kv = 8192,
                                   .head_dim = 128,
                                   .head_dim_v = 128});
  CHECK(Call(args).layout().grid.section_planes == 1);
  args.causal = true;
  args.diagonal = Diagonal::kBottomRight;
  const Call call(args);
  // A kv head has 4 MiB of K and V; four of them, and the four query heads of each.
  CHECK(call.layout().grid.section_planes == 16);
  const ForwardArguments arguments(call.spec, call.problem, call.args, call.layout(), nullptr,
                                   encode_nothing);
  CHECK(arguments.values().forward.base.section_planes == 16);
  CHECK(arguments.values().forward.base.num_planes == 128);
  CHECK(arguments.shape(0).grid[0] == 128 * 128);

  // Never more than there are, and at least one.
  ForwardArgs small = forward_args({.batch = 1, .heads_q = 2, .heads_kv = 2, .seqlen_q = 16384});
  small.causal = true;
  small.diagonal = Diagonal::kTopLeft;
  CHECK(Call(small).layout().grid.section_planes == 2);
  ForwardArgs large = forward_args(
      {.batch = 1, .heads_q = 2, .heads_kv = 2, .seqlen_q = 16384, .seqlen_kv = 1 << 20});
  large.causal = true;
  large.diagonal = Diagonal::kTopLeft;
  CHECK(Call(large).layout().grid.section_planes == 1);
}

TEST_CASE("heads of pack_gqa share row tiles") {
  Call call(forward_args({.batch = 4, .heads_q = 32, .heads_kv = 8, .seqlen_q = 3}));
  call.spec.facts.pack_gqa_heads = 4;
  const launch::ForwardGrid grid = launch::forward_grid(call.spec, call.problem);
  CHECK(grid.planes == 32);
  CHECK(grid.q_tiles == 1);
  call.problem.seqlen_q = 17;  // 68 rows
  CHECK(launch::forward_grid(call.spec, call.problem).q_tiles == 2);
  call.problem.seqlen_q = 1 << 30;
  CHECK_THROWS_WITH_AS(launch::forward_grid(call.spec, call.problem),
                       doctest::Contains("the 4 query heads of a kv head have 4294967296 rows"),
                       Error);
}

TEST_CASE("packed sequences have a tile each beside those of their rows, and no splits") {
  ForwardArgs args = forward_args({.batch = 1, .seqlen_q = 1000, .seqlen_kv = 8192});
  args.cu_seqlens_q = fake_address<std::int32_t>(7);
  args.cu_seqlens_kv = fake_address<std::int32_t>(8);
  args.num_sequences = 6;
  const launch::ForwardGrid grid = Call(args).layout().grid;
  CHECK(grid.q_tiles == 1000 / 64 + 6 + 1);
  CHECK(grid.planes == 32);
  CHECK(grid.splits == 1);
}

TEST_CASE("packed sequences of paged keys have no begins of these, and their own table") {
  ForwardArgs args = forward_args();
  test::page_keys(args, 16);
  test::pack_queries(args);
  const Call call(args);
  const ForwardArguments arguments(call.spec, call.problem, call.args, call.layout(), nullptr,
                                   encode_nothing);
  const kernel::PackedSequencesParams& sequences = arguments.values().features.sequences;
  const kernel::PagedKeysParams& pages = arguments.values().features.pages;
  CHECK(sequences.q.begins == args.cu_seqlens_q);
  CHECK(sequences.q.num_sequences == 4);
  CHECK(sequences.kv.begins == nullptr);
  CHECK(sequences.kv.num_sequences == 0);
  CHECK(sequences.kv.num_rows == 192);
  CHECK(sequences.used_kv == args.seqlens_kv);
  CHECK(pages.pages == args.block_table);
  CHECK(pages.stride == 15);
}

TEST_CASE("a problem without keys still runs its forward step") {
  Call call(forward_args({.seqlen_kv = 0}));
  const ForwardArguments arguments(call.spec, call.problem, call.args, call.layout(), nullptr,
                                   encode_nothing);
  CHECK(arguments.runs(0));
  CHECK(arguments.shape(0).grid[0] == 4 * 32 * 2);
}

TEST_CASE("a grid past what a launch can hold is refused by name") {
  const Call fits(forward_args({.batch = 70000, .heads_q = 8, .heads_kv = 8, .seqlen_q = 64}));
  CHECK(ForwardArguments(fits.spec, fits.problem, fits.args, fits.layout(), nullptr, encode_nothing)
            .shape(0)
            .grid[0] == 560000);
  const auto message = [](const test::Sizes& sizes) -> std::string {
    ForwardArgs args = forward_args(sizes);
    // Any strides will do for inputs; the output is as dense as it can be.
    const Call call(args);
    try {
      ForwardArguments(call.spec, call.problem, call.args, call.layout(), nullptr, encode_nothing);
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::kInvalidProblem);
      return error.what();
    }
    return "";
  };
  const std::string refused = message({.batch = 1 << 20,
                                       .heads_q = 1 << 10,
                                       .heads_kv = 1 << 10,
                                       .seqlen_q = 129,
                                       .seqlen_kv = 1,
                                       .head_dim = 8,
                                       .head_dim_v = 8});
  CHECK(refused.starts_with("attn_fwd needs "));
  CHECK(refused.find("3221225472 thread blocks") != std::string::npos);
  CHECK(refused.find("2147483647") != std::string::npos);
}
