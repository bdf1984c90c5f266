// The order in which thread blocks of a persistent forward take blocks of rows.
#include <doctest/doctest.h>

#include <cstdint>

#include "launch/forward_arguments.hpp"
#include "launch/grid.hpp"
#include "unit/forward_fixtures.hpp"

namespace attnjit::launch_row_order_test {

using launch::encode_nothing;
using launch::ForwardArguments;
using launch::ForwardPlanSpec;
using test::fake_address;
using test::forward_args;
using test::mask;

TEST_CASE("blocks of rows whose costs lie on the device are taken from a counter") {
  ForwardArgs args =
      forward_args({.batch = 4, .heads_q = 8, .heads_kv = 8, .seqlen_q = 1024, .seqlen_kv = 1024});
  args.seqlens_kv = fake_address<std::int32_t>(7);
  const codegen::ForwardTunables tunables{
      .path = codegen::Path::kWgmma, .block_q = 128, .block_kv = 128, .num_stages = 2};
  // 256 blocks of rows, and 32 of the first 128 rows.
  for (const std::int64_t rows : {1024, 128}) {
    CAPTURE(rows);
    args.q.shape[2] = args.out.shape[2] = rows;
    const problem::Problem problem = problem::make_problem(args);
    const ForwardPlanSpec spec = launch::make_forward_plan_spec(
        problem::family(problem), tunables, codegen::find_arch("sm_90a"), codegen::TemplateSet());
    REQUIRE(spec.steps[0].source.entry == "clear_count");
    CHECK(spec.steps[1].overlaps);  // and waits before it counts
    const launch::WorkspaceLayout layout = launch::workspace_layout(spec, problem);
    ForwardArguments arguments(spec, problem, args, layout, fake_address(9), encode_nothing);
    const auto& values = arguments.values();
    const bool counts = rows == 1024;  // more than there are thread blocks
    CHECK(arguments.runs(0) == counts);
    CHECK(arguments.shape(1).overlaps == counts);  // nor a kernel of the caller
    CHECK((values.forward.work_taken != nullptr) == counts);
    CHECK(values.clear_count.count == values.forward.work_taken);
  }
  const auto entry_of_first = [&] {
    const problem::Problem problem = problem::make_problem(args);
    return launch::make_forward_plan_spec(problem::family(problem), tunables,
                                          codegen::find_arch("sm_90a"), codegen::TemplateSet())
        .steps[0]
        .source.entry;
  };
  args.seqlens_kv = nullptr;
  CHECK(entry_of_first() == "attn_fwd");
  args.mask = mask(args, "11qk");
  CHECK(entry_of_first() == "mask_to_bits");  // which clears the counter
}

TEST_CASE("blocks of rows of packed sequences are ordered in a step that the forward overlaps") {
  ForwardArgs args = forward_args(
      {.batch = 1, .heads_q = 32, .heads_kv = 8, .seqlen_q = 1000, .seqlen_kv = 65536});
  args.cu_seqlens_q = fake_address<std::int32_t>(7);
  args.cu_seqlens_kv = fake_address<std::int32_t>(8);
  args.num_sequences = 6;
  args.mask = mask(args, "1111");
  args.mask->shape = {6, 1, 300, 400};
  args.mask->strides = {300 * 400, 0, 400, 1};
  args.causal = true;
  args.diagonal = Diagonal::kBottomRight;
  const problem::Problem problem = problem::make_problem(args);
  const codegen::ForwardTunables tunables{
      .path = codegen::Path::kWgmma, .block_q = 128, .block_kv = 128, .num_stages = 2};
  const ForwardPlanSpec spec = launch::make_forward_plan_spec(
      problem::family(problem), tunables, codegen::find_arch("sm_90a"), codegen::TemplateSet());
  REQUIRE(spec.steps.size() == 4);
  CHECK(spec.steps[1].source.entry == "packed_order");
  CHECK(spec.steps[2].source.entry == "attn_fwd");
  CHECK_FALSE(spec.steps[0].overlaps);
  CHECK_FALSE(spec.steps[1].overlaps);  // so that the mask is there when the forward begins
  CHECK(spec.steps[2].overlaps);
  const launch::WorkspaceLayout layout = launch::workspace_layout(spec, problem);
  CHECK(layout.grid.q_tiles == 1000 / 128 + 6 + 1);
  CHECK(layout.grid.sections == 8);  // 65536 keys of 256 bytes of k and v are 16 MiB
  CHECK(layout.order_counts - layout.order >= 15 * sizeof(kernel::PackedTile));
  CHECK(layout.bytes - layout.order_counts >= 3 * sizeof(kernel::uint32));
  ForwardArguments arguments(spec, problem, args, layout, fake_address(9), encode_nothing);
  const auto& values = arguments.values();
  CHECK(arguments.parameters(0)[0] == &values.mask_to_bits);
  CHECK(arguments.parameters(1)[0] == &values.packed_order);
  CHECK(arguments.parameters(2)[0] == &values.forward);
  CHECK(arguments.shape(1).grid[0] == 1);
  CHECK(arguments.shape(1).block == 1024);
  CHECK(arguments.shape(2).overlaps);
  CHECK(values.packed_order.q.begins == args.cu_seqlens_q);
  CHECK(values.packed_order.kv.begins == args.cu_seqlens_kv);
  CHECK(values.packed_order.costs.rising == 1);
  CHECK(values.packed_order.costs.bottom_right == 1);
  CHECK(values.packed_order.work.tiles == values.features.sequences.work.tiles);
  CHECK(values.packed_order.work.counts == values.features.sequences.work.counts);
  CHECK(reinterpret_cast<std::uintptr_t>(values.packed_order.work.tiles) ==
        reinterpret_cast<std::uintptr_t>(fake_address(9)) + layout.order);
  CHECK(values.packed_order.num_planes == 32);
  CHECK(values.packed_order.num_kv_heads == 8);
  CHECK(values.packed_order.most_sections == 8);
  CHECK(values.packed_order.num_blocks == int(arguments.shape(2).grid[0]));
}

TEST_CASE("sections of packed sequences are of whole kv heads, equal, and fit L2") {
  const std::int64_t mib = 1 << 20;
  CHECK(launch::choose_sections(8 * mib, 16) == 8);  // three heads fit, and do not divide 16
  CHECK(launch::choose_sections(8 * mib, 9) == 3);
  CHECK(launch::choose_sections(100 * mib, 8) == 8);  // of one kv head in any case
  CHECK(launch::choose_sections(mib, 8) == 1);
  CHECK(launch::choose_sections(0, 16) == 1);
}

}  // namespace attnjit::launch_row_order_test
