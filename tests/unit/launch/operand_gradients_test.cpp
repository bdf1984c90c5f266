// Steps and memory of the gradients of operands.
#include "launch/operand_gradients.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "instance/call_args.hpp"
#include "launch/backward_arguments.hpp"
#include "launch/tensor_maps.hpp"
#include "tuner/config_zero.hpp"
#include "unit/forward_fixtures.hpp"

namespace attnjit::launch::operand_gradients_test {
namespace {

// A backward with the gradient of `x`, on a device of 132 SMs.
struct Planned {
  Planned(const char* score, std::vector<const char*> operands, std::int64_t rows)
      : spec{.batch = 2,
             .heads_q = 4,
             .heads_kv = 4,
             .seqlen_q = rows,
             .seqlen_kv = rows,
             .head_dim = 64,
             .score = score,
             .backward = true,
             .grad = {"x"}} {
    spec.diagonal = Diagonal::kTopLeft;
    for (const char* text : operands) spec.operands.push_back(instance::parse_operand(text));
    const instance::ShapeCall call(spec);
    problem = problem::make_problem(call.backward());
    const codegen::Arch& arch = codegen::find_arch("sm_90a");
    const auto tunables = tuner::config_zero(problem::plan_key(problem), arch);
    plan = make_backward_plan_spec(problem::family(problem), tunables, arch, {});
    layout = workspace_layout(plan, problem);
    const BackwardArguments arguments(plan, problem, call.backward(), layout,
                                      test::fake_address(30), launch::encode_nothing);
    slices_run = arguments.runs(BackwardStep::kOperandSlices);
    sums_run = arguments.runs(BackwardStep::kOperandSum);
  }

  instance::ProblemSpec spec;
  problem::BackwardProblem problem;
  BackwardPlanSpec plan;
  BackwardLayout layout;
  bool slices_run, sums_run;
};

TEST_CASE("short lists are added up at once, long ones slice by slice") {
  const Planned few("s + x[h]", {"x=fp32:h"}, 128);
  CHECK(few.layout.slices[0].slices == 1);
  CHECK_FALSE(few.slices_run);
  CHECK(few.sums_run);
  const Planned many("s + x[n[i, j]]", {"x=fp32:9", "n=int32:q,k"}, 1024);
  CHECK(many.layout.slices[0].slices > 1);
  CHECK(many.slices_run);
  CHECK(many.sums_run);
}

TEST_CASE("sums of diagonals take at most 32 bytes of a row and key of each head") {
  for (const std::int64_t rows : {1024, 8192}) {
    const Planned each("s + x[h, j - i]", {"x=fp32:h,99"}, rows);
    const SiteLayout& site = each.layout.sites[0];
    CHECK(site.batches == 1);
    CHECK(site.heads == 4);
    CHECK(site.entries * 9 <= 32 * 2 * 4 * (rows + rows));
  }
}

TEST_CASE("batch elements have sums of their own where the index tells them apart") {
  CHECK(Planned("s + x[j - i + off]", {"x=fp32:99"}, 128).layout.sites[0].batches == 1);
  CHECK(Planned("s + x[b, j - i]", {"x=fp32:b,99"}, 128).layout.sites[0].batches == 2);
}

TEST_CASE("planes of one tile have sums of one operand from the kernel of dk and dv") {
  using expr::GradientForm;
  const Planned table("s + x[h, n[i, j]]", {"x=fp32:h,9", "n=int32:q,k"}, 40);
  CHECK(table.plan.sites.in_dkv == 0);
  CHECK(table.plan.dkv.reads_out);
  CHECK(table.plan.steps.find(BackwardStep::kOperandSite) == table.plan.steps.size());
  CHECK(table.layout.sites[0].entries == 4 * 64 * 64);
  CHECK(table.layout.sites[0].shares == table.layout.grid.dbias_shares);
  const auto form = [](const Planned& planned) { return planned.plan.sites.list[0].form; };
  CHECK(form(table) == GradientForm::kIndexTable);
  CHECK(form(Planned("s + x[h, i // 7 - j // 7]", {"x=fp32:h,9"}, 40)) ==
        GradientForm::kIndexTable);
  CHECK(form(Planned("s + x[h, i, j]", {"x=fp32:h,q,k"}, 40)) == GradientForm::kIndexTable);
  CHECK(form(Planned("s + x[h, i, j]", {"x=fp32:h,q,k"}, 400)) == GradientForm::kPairs);
  // Another derivative than that by s, batch elements with elements of their own, and a scale.
  for (const char* score : {"s - x[i]", "s + x[i + b]", "s * x[h]"}) {
    CAPTURE(score);
    const Planned other(score, {"x=fp32:99"}, 40);
    CHECK_FALSE(other.plan.sites.in_dkv);
    CHECK_FALSE(other.plan.dkv.reads_out);
  }
}

// A plan may serve calls of other lengths: its kernel writes a list for each plane all the same.
TEST_CASE("planes of one tile without rows have memory for their sums") {
  const char* const score = "s + x[h, n[i, j]]";
  const Planned some(score, {"x=fp32:h,9", "n=int32:q,k"}, 40);
  const Planned none(score, {"x=fp32:h,9", "n=int32:q,k"}, 0);
  const BackwardPlanSpec plan = make_backward_plan_spec(
      problem::family(none.problem), some.plan.tunables, codegen::find_arch("sm_90a"), {});
  REQUIRE(plan.sites.in_dkv == 0);
  const BackwardLayout layout = workspace_layout(plan, none.problem);
  CHECK(layout.sites[0].entries == 4 * 64 * 64);
  CHECK(layout.sites[0].blocks() == layout.grid.dkv_blocks);
}

}  // namespace
}  // namespace attnjit::launch::operand_gradients_test
