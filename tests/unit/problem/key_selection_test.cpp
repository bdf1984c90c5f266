// Selected keys: what is refused and how it is said, and the problem that they become.
#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "expr/interned.hpp"
#include "problem/call_shape.hpp"
#include "problem/manifest_line.hpp"
#include "problem/plan_key.hpp"
#include "unit/backward_fixtures.hpp"
#include "unit/forward_fixtures.hpp"

namespace attnjit::problem::key_selection_test {
namespace {

using test::fake_address;

Tensor indices(std::int64_t batch, std::int64_t heads, std::int64_t width,
               DType dtype = DType::kInt32) {
  return Tensor::contiguous(fake_address(41), dtype, {batch, heads, 1, width});
}

// B 4, Hq 32, Hkv 8, Lq 128, Lk 192.
ForwardArgs call(std::int64_t width = 50) {
  ForwardArgs args = test::forward_args();
  args.key_indices = indices(4, 8, width);
  return args;
}

TEST_CASE("a call over selected keys becomes one of these keys") {
  ForwardArgs args = call();
  args.mask = test::mask(args, "b11k");
  args.bias = test::bias(args, "1hqk");
  args.causal = true;
  args.diagonal = Diagonal::kBottomRight;
  args.softcap = 20.0f;
  args.seqlens_kv = fake_address<const std::int32_t>(7);
  const Problem p = make_problem(args);
  CHECK(p.seqlen_kv == 50);
  CHECK(p.num_keys() == 192);
  CHECK(p.k.row == selected_row(p.head_dim));
  CHECK(p.k.batch == 8 * 50 * selected_row(p.head_dim));
  CHECK(p.mask.extent == Extent::kAbsent);
  CHECK(p.bias.extent == Extent::kAbsent);
  CHECK_FALSE(p.bounded_right);
  CHECK_FALSE(p.has_seqlens_kv);
  CHECK(p.softcap == 0.0f);
  CHECK(p.keep.text() ==
        "keep i0[b, g, j] >= 0 && i0[b, g, j] <= i + (off + (i1[b] - Lk)) && "
        "b2[b, g, 0, i0[b, g, j]]; int32, int32, bool");
  CHECK(p.score.text() == "score 20.0 * tanh(s / 20.0) + f0[b, h, i, i1[b, g, j]]; bf16, int32");
  CHECK(p.keep_operands[0].argument == ExpressionOperand::kSelectedKeys);
  CHECK(p.keep_operands[0].sizes == std::array<std::int64_t, 4>{4, 8, 50, 0});
  CHECK(p.keep_operands[1].argument == ExpressionOperand::kKeyNumbers);
  CHECK(p.keep_operands[2].argument == ExpressionOperand::kMask);
  CHECK(p.score_operands[0].argument == ExpressionOperand::kBias);
  CHECK(family(p).key_indices.text() == "int32");
  const Problem called = as_called(p);
  CHECK(called.seqlen_kv == 192);
  CHECK(called.mask == p.selection.mask);
  CHECK(called.bounded_right);
  CHECK(called.softcap == 20.0f);
  CHECK(called.has_seqlens_kv);
  CHECK_FALSE(called.keep);
}

TEST_CASE("few rows read selected keys in place, unless they ask how many there are") {
  ForwardArgs args = test::forward_args({.seqlen_q = 16});
  args.key_indices = indices(4, 8, 50, DType::kInt64);
  args.seqlens_kv = fake_address<const std::int32_t>(7);
  Problem p = make_problem(args);
  CHECK(p.selection.in_place);
  CHECK(family(p).key_indices.in_place());
  CHECK(p.k == p.selection.k);
  CHECK_FALSE(p.keep);
  CHECK(plan_key(p) == plan_key(make_problem(args)));
  CHECK_FALSE(make_problem(args, true).selection.in_place);
  args.causal = true;
  args.diagonal = Diagonal::kTopLeft;
  p = make_problem(args);
  CHECK(p.selection.in_place);
  CHECK(p.keep.text() == "keep i0[b, g, j] <= i + off; int32");
  CHECK(p.keep_operands[0].strides[2] == 2);  // the lower halves of 64 bits
  args.diagonal = Diagonal::kBottomRight;
  CHECK_FALSE(make_problem(args).selection.in_place);
  args = test::forward_args({.seqlen_q = 17});
  args.key_indices = indices(4, 8, 50);
  CHECK_FALSE(make_problem(args).selection.in_place);  // 68 rows of a kv head
}

TEST_CASE("descriptions and manifest lines of selected keys tell of the call") {
  ForwardArgs args = call(70);
  args.key_indices = indices(1, 8, 70, DType::kInt64);
  args.window = {30, 4};
  args.diagonal = Diagonal::kTopLeft;
  attnjit::Operand ids{.name = "id", .rank = 1, .tensor = {}};
  ids.tensor = Tensor::contiguous(fake_address(42), DType::kInt32, {192, 1, 1, 1});
  args.operands = {&ids, 1};
  args.keep = expr::expression("id[j] == 3");
  const Problem p = make_problem(args);
  const std::string text = describe(p);
  CAPTURE(text);
  CHECK(text.find("lk192 ") != std::string::npos);
  CHECK(text.find("window=30,4") != std::string::npos);
  CHECK(text.find("key_indices=70/1g(int64)") != std::string::npos);
  CHECK(text.find("{keep i0[j] == 3; int32}") != std::string::npos);
  const std::string line = manifest_line(p);
  CAPTURE(line);
  CHECK(line.find(R"("key_indices":"topk:70/1g/int64")") != std::string::npos);
  CHECK(line.find(R"("keep":"x0[j] == 3")") != std::string::npos);
  CHECK(line.find(R"("seqlens":[128,192])") != std::string::npos);
  CHECK(describe(family(p)).find("key_indices(int64)") != std::string::npos);
}

TEST_CASE(
    "an operand of the caller's is no list of keys, whatever the expression's first call had") {
  const ForwardArgs plain = call();
  make_problem(plain);  // interns "i0[b, g, j] >= 0" over the numbers of keys
  attnjit::Operand own{.name = "own", .rank = 3, .tensor = {}};
  own.tensor = Tensor::contiguous(fake_address(42), DType::kInt32, {4, 8, 192, 1});
  ForwardArgs args = call();
  args.operands = {&own, 1};
  args.keep = expr::expression("own[b, g, j] >= 0");
  const Problem p = make_problem(args);
  CHECK(p.keep.text() == "keep i0[b, g, j] >= 0 && i1[b, g, i0[b, g, j]] >= 0; int32, int32");
  CHECK(p.keep_operands[0].argument == ExpressionOperand::kSelectedKeys);
  CHECK(p.keep_operands[1].argument == 0);
}

TEST_CASE("selected keys make a shape and a family of their own") {
  const ForwardArgs plain = test::forward_args(), selecting = call();
  CHECK_FALSE(same_shape(plain, selecting));
  ForwardArgs other = call();
  CHECK(same_shape(selecting, other));
  other.key_indices->strides[3] = 2;
  CHECK_FALSE(same_shape(selecting, other));
  CHECK(plan_key(make_problem(selecting)) == plan_key(make_problem(other)));
  CHECK_FALSE(plan_key(make_problem(selecting)) == plan_key(make_problem(plain)));
  other.key_indices->dtype = DType::kInt64;
  CHECK_FALSE(plan_key(make_problem(selecting)) == plan_key(make_problem(other)));
  // Neither the number of all keys nor where indices lie makes another kernel.
  ForwardArgs longer = test::forward_args({.seqlen_kv = 5000});
  longer.key_indices = indices(4, 8, 50);
  CHECK(plan_key(make_problem(longer)) == plan_key(make_problem(selecting)));
}

TEST_CASE("a backward writes dk and dv of all keys") {
  BackwardArgs args = test::backward_args();
  args.forward.key_indices = indices(4, 8, 50);
  const BackwardProblem p = make_problem(args);
  CHECK(p.dk == p.forward.k);
  CHECK(p.caller_dk.row == args.dk.strides[2]);
  CHECK(p.caller_dv.head == args.dv.strides[1]);
  args.forward.q.shape[2] = args.forward.out.shape[2] = args.dout.shape[2] = args.dq.shape[2] = 0;
  args.forward.key_indices = indices(4, 8, 0);
  CHECK_FALSE(make_problem(args).empty());  // they are set to 0
  BackwardArgs biased = test::bias_args("1hqk");
  biased.forward.key_indices = indices(1, 1, 50);
  CHECK_THROWS_WITH_AS(make_problem(biased),
                       doctest::Contains("dbias: a bias has no gradient beside key_indices"),
                       Error);
}

TEST_CASE("what is refused of selected keys") {
  using Change = std::pair<std::function<void(ForwardArgs&)>, std::string>;
  const std::vector<Change> changes = {
      {[](ForwardArgs& a) { a.key_indices->dtype = DType::kFloat32; },
       "key_indices: dtype is fp32; expected int32 or int64"},
      {[](ForwardArgs& a) { a.key_indices->data = nullptr; }, "key_indices: data is null"},
      {[](ForwardArgs& a) { a.key_indices->data = fake_address<char>(41) + 2; },
       "key_indices: address"},
      {[](ForwardArgs& a) { a.key_indices->shape[0] = 2; },
       "key_indices: batch axis is 2; expected 1 or 4 (batch of q)"},
      {[](ForwardArgs& a) { a.key_indices->shape[1] = 32; },
       "key_indices: head axis is 32; expected 1 or 8 (kv heads)"},
      {[](ForwardArgs& a) { a.key_indices->shape[2] = 128; },
       "key_indices: sequence axis is 128; expected 1 (all rows see the same keys)"},
      {[](ForwardArgs& a) { a.key_indices->shape[3] = -1; },
       "key_indices: last axis is -1; expected 0 to"},
      {[](ForwardArgs& a) { a.mask = test::mask(a, "s1qk"); },
       "mask: batch axis is 2; expected 1 or 4 beside key_indices"},
      {[](ForwardArgs& a) { a.tail_mask = test::tail_mask(a); },
       "key_indices: given together with tail_mask; leave one of them out"},
      {[](ForwardArgs& a) {
         a.blocks = {.block_q = 64,
                     .block_kv = 64,
                     .indices = Tensor::contiguous(fake_address(5), DType::kInt32, {1, 1, 2, 3}),
                     .counts = Tensor::contiguous(fake_address(6), DType::kInt32, {1, 1, 2, 1}),
                     .full_indices = {},
                     .full_counts = {},
                     .num_kv_blocks = 0};
       },
       "key_indices: given together with blocks; leave one of them out"}};
  for (const auto& [change, expected] : changes) {
    ForwardArgs args = call();
    change(args);
    CAPTURE(expected);
    CHECK(test::refusal(args).find(expected) != std::string::npos);
  }
}

}  // namespace
}  // namespace attnjit::problem::key_selection_test
