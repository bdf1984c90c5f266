// Lists of blocks: what is refused and how it is said, and the keep expression that they become.
#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "expr/interned.hpp"
#include "problem/call_shape.hpp"
#include "problem/manifest_line.hpp"
#include "problem/plan_key.hpp"
#include "unit/forward_fixtures.hpp"

namespace attnjit::problem::block_lists_test {
namespace {

using test::fake_address;

Tensor lists(std::array<std::int64_t, 4> shape) {
  return Tensor::contiguous(fake_address(41), DType::kInt32, shape);
}

// B 4, Hq 32, Hkv 8, Lq 128, Lk 192.
ForwardArgs call(std::int64_t heads = 32, bool full = false) {
  ForwardArgs args = test::forward_args();
  args.blocks = {.block_q = 64,
                 .block_kv = 32,
                 .indices = lists({4, heads, 2, 6}),
                 .counts = lists({4, heads, 2, 1}),
                 .full_indices = {},
                 .full_counts = {},
                 .num_kv_blocks = 0};
  if (full) {
    args.blocks->full_indices = lists({4, heads, 2, 3});
    args.blocks->full_counts = lists({4, heads, 2, 1});
  }
  return args;
}

ForwardArgs packed() {
  ForwardArgs args = call();
  args.cu_seqlens_q = args.cu_seqlens_kv = fake_address<const std::int32_t>(42);
  for (Tensor* tensor : {&args.q, &args.k, &args.v, &args.out}) tensor->shape[0] = 1;
  args.num_sequences = 4;
  return args;
}

std::string keep_text(const ForwardArgs& args) {
  return std::string(family(make_problem(args)).keep.text());
}

TEST_CASE("lists of blocks become a part of the keep expression") {
  CHECK(keep_text(call()) == "keep b0[b, h, i // 64, j // 32]; bool");
  CHECK(keep_text(call(8)) == "keep b0[b, g, i // 64, j // 32]; bool");
  CHECK(keep_text(call(1)) == "keep b0[b, g, i // 64, j // 32]; bool");
  ForwardArgs args = call(32, true);
  args.keep = expr::expression("j <= i");
  CHECK(keep_text(args) ==
        "keep b0[b, h, i // 64, j // 32] || b1[b, h, i // 64, j // 32] && j <= i; bool, bool");
  const Problem p = make_problem(args);
  CHECK(p.caller_keep.text() == "keep j <= i");
  CHECK(p.keep_operands[0].argument == ExpressionOperand::kFullBlocks);
  CHECK(p.keep_operands[1].argument == ExpressionOperand::kListedBlocks);
  CHECK(p.keep_operands[1].strides == std::array<std::int64_t, 4>{32 * 2 * 16, 2 * 16, 16, 1});
  CHECK(p.keep->blocks.rows == 64);
  CHECK(p.keep->blocks.keys == 32);
}

TEST_CASE(
    "blocks count from the rows and keys of the call, and expressions from those of the whole") {
  ForwardArgs args = call();
  args.keep = expr::expression("j <= i");
  args.row_offset = 7;
  CHECK(keep_text(args) ==
        "keep b0[b, h, i // 64, j // 32] && j + key_offset <= i + row_offset; bool");
}

TEST_CASE("operands keep their places beside lists") {
  attnjit::Operand ids{.name = "id", .rank = 1, .tensor = lists({192, 1, 1, 1})};
  ForwardArgs args = call();
  args.operands = {&ids, 1};
  args.keep = expr::expression("id[j] == 3");
  const Problem p = make_problem(args);
  CHECK(p.keep_operands[0].argument == ExpressionOperand::kListedBlocks);
  CHECK(p.keep_operands[1].argument == 0);
  const std::string line = manifest_line(p);
  CHECK(line.find(R"("keep":"x0[j] == 3")") != std::string::npos);
  CHECK(line.find(R"("operands":["x0=int32:192"])") != std::string::npos);
  CHECK(line.find(R"("blocks":"random:0.25/64x32/bh")") != std::string::npos);
}

TEST_CASE("an operand of the caller's is no list, whatever the expression's first call had") {
  make_problem(call());  // interns "b0[b, h, i // 64, j // 32]" over lists
  attnjit::Operand own{.name = "own", .rank = 4, .tensor = lists({4, 32, 2, 6})};
  own.tensor.dtype = DType::kBool;
  ForwardArgs args = call();
  args.operands = {&own, 1};
  args.keep = expr::expression("own[b, h, i // 64, j // 32]");
  const Problem p = make_problem(args);
  CHECK(p.keep.text() ==
        "keep b0[b, h, i // 64, j // 32] && b1[b, h, i // 64, j // 32]; bool, bool");
  CHECK(p.keep_operands[0].argument == ExpressionOperand::kListedBlocks);
  CHECK(p.keep_operands[1].argument == 0);
}

TEST_CASE("lists make a shape and a family of their own") {
  const ForwardArgs plain = test::forward_args(), listed = call();
  CHECK_FALSE(same_shape(plain, listed));
  ForwardArgs other = call();
  CHECK(same_shape(listed, other));
  CHECK(make_problem(listed) == make_problem(other));
  other.blocks->indices.strides[3] = 2;
  CHECK_FALSE(same_shape(listed, other));
  CHECK(plan_key(make_problem(listed)) == plan_key(make_problem(other)));
  CHECK_FALSE(plan_key(make_problem(listed)) == plan_key(make_problem(plain)));
}

TEST_CASE("what is refused of lists of blocks") {
  using Change = std::pair<std::function<void(BlockLists&)>, std::string>;
  const std::vector<Change> changes = {
      {[](BlockLists& b) { b.block_q = 0; }, "blocks.block_q: 0; expected 1 to"},
      {[](BlockLists& b) { b.block_kv = -3; }, "blocks.block_kv: -3; expected 1 to"},
      {[](BlockLists& b) { b.indices.dtype = DType::kFloat32; },
       "blocks.indices: dtype is fp32; expected int32"},
      {[](BlockLists& b) { b.counts.dtype = DType::kBool; },
       "blocks.counts: dtype is bool; expected int32"},
      {[](BlockLists& b) { b.indices.data = nullptr; }, "blocks.indices: data is null"},
      {[](BlockLists& b) { b.indices.shape[0] = 2; },
       "blocks.indices: batch axis is 2; expected 1 or 4 (batch of q)"},
      {[](BlockLists& b) { b.indices.shape[1] = 3; },
       "blocks.indices: head axis is 3; expected 1, 8 (kv heads) or 32 (query heads)"},
      {[](BlockLists& b) { b.indices.shape[2] = 3; },
       "blocks.indices: axis of row blocks is 3; expected 2 (Lq / block_q, rounded up)"},
      {[](BlockLists& b) { b.counts.shape[1] = 8; },
       "blocks.counts: batch and head axis are 4 and 8; expected 4 and 32 (those of "
       "blocks.indices)"},
      {[](BlockLists& b) { b.counts.shape[3] = 2; }, "blocks.counts: last axis is 2; expected 1"},
      {[](BlockLists& b) { b.full_counts.reset(); },
       "blocks.full_counts: absent with blocks.full_indices; expected both or none"},
      {[](BlockLists& b) { b.full_indices->shape[2] = 1; },
       "blocks.full_indices: axis of row blocks is 1; expected 2"},
      {[](BlockLists& b) { b.num_kv_blocks = 5; },
       "blocks.num_kv_blocks: 5; expected 0 or 6 (Lk / block_kv, rounded up)"}};
  for (const auto& [change, message] : changes) {
    ForwardArgs args = call(32, true);
    CHECK(test::refusal(args) == "");
    change(*args.blocks);
    CAPTURE(message);
    CHECK(test::refusal(args).find(message) != std::string::npos);
  }
}

TEST_CASE("packed sequences have as many blocks as their lists") {
  ForwardArgs args = packed();
  CHECK(test::refusal(args) == "");
  args.blocks->indices = lists({4, 32, 9, 6});
  CHECK(test::refusal(args).find("blocks.counts: axis of row blocks is 2; expected 9 (that of "
                                 "blocks.indices)") != std::string::npos);
  args.blocks->counts = lists({1, 32, 9, 1});
  args.blocks->indices.shape[0] = 1;
  args.blocks->num_kv_blocks = 3;
  const Problem p = make_problem(args);
  CHECK(p.operand_queries == 9 * 64);
  CHECK(p.operand_keys == 3 * 32);
}

}  // namespace
}  // namespace attnjit::problem::block_lists_test
