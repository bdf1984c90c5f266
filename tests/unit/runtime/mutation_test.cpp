// Every field of a call, changed one at a time. Either the problem differs, or nothing does: no
// kernel, grid, parameter or workspace may depend on what the problem does not say.
#include <doctest/doctest.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "expr/interned.hpp"
#include "unit/forward_fixtures.hpp"
#include "unit/forward_mutations.hpp"
#include "unit/forward_outcome.hpp"

using namespace attnjit;
using attnjit::test::fake_address;
using attnjit::test::mutations;
using attnjit::test::Outcome;
using attnjit::test::outcome;

namespace {

// Starting points that have different features.
std::vector<ForwardArgs> bases() {
  std::vector<ForwardArgs> list(10, test::forward_args());
  list[1].mask = test::mask(list[1], "bgqk");
  list[1].causal = true;
  list[1].diagonal = Diagonal::kBottomRight;
  list[2].bias = test::operand(list[2], "1hqk", DType::kFloat32, 5);
  list[2].mask = test::mask(list[2], "b11k");
  list[2].window = {3, 4};
  list[2].diagonal = Diagonal::kTopLeft;
  list[2].scale = -1.0f;
  list[3].mask = test::mask(list[3], "bhq1");
  list[3].bias = test::bias(list[3], "b1q1");
  list[3].seqlens_q = fake_address<std::int32_t>(7);
  list[3].lse = fake_address<float>(6);
  list[4] = test::forward_args({.batch = 1, .heads_q = 1, .heads_kv = 1, .seqlen_q = 1});
  list[4].bias = test::bias(list[4], "bhqk");
  list[4].seqlens_kv = fake_address<std::int32_t>(8);
  list[5] = test::forward_args({.batch = 8, .heads_q = 4, .heads_kv = 2});
  list[5].mask = test::mask(list[5], "s1qk");
  list[5].bias = test::bias(list[5], "shqk");
  list[6].keep = expr::expression("j <= i");
  list[6].row_offset = 5;
  const auto lists = [](std::uintptr_t at, std::array<std::int64_t, 4> shape) {
    return Tensor::contiguous(fake_address(at), DType::kInt32, shape);
  };
  list[7].blocks = {.block_q = 64,
                    .block_kv = 64,
                    .indices = lists(41, {4, 8, 2, 3}),
                    .counts = lists(42, {4, 8, 2, 1}),
                    .full_indices = lists(43, {4, 8, 2, 3}),
                    .full_counts = lists(44, {4, 8, 2, 1}),
                    .num_kv_blocks = 0};
  list[8].key_indices = lists(45, {4, 8, 1, 40});
  list[8].mask = test::mask(list[8], "bgqk");
  list[8].seqlens_kv = fake_address<std::int32_t>(8);
  list[9] = test::forward_args({.seqlen_q = 16});  // in place
  list[9].key_indices = lists(45, {4, 8, 1, 40});
  list[9].seqlens_kv = fake_address<std::int32_t>(8);
  return list;
}

// Of the fields of lists of blocks and of key indices, beside those of all calls.
std::vector<test::Mutation> all_mutations() {
  std::vector<test::Mutation> list = mutations();
  for (const auto& [name, tensor] : {std::pair{"blocks.indices", &BlockLists::indices},
                                     {"blocks.counts", &BlockLists::counts}}) {
    test::add_tensor(list, name, [tensor = tensor](ForwardArgs& a) {
      return a.blocks ? &((*a.blocks).*tensor) : nullptr;
    });
  }
  test::add_tensor(list, "key_indices",
                   [](ForwardArgs& a) { return a.key_indices ? &*a.key_indices : nullptr; });
  list.push_back({"blocks.block_q", [](ForwardArgs& a) {
                    if (a.blocks) a.blocks->block_q = 127;
                  }});
  list.push_back({"blocks.block_kv", [](ForwardArgs& a) {
                    if (a.blocks) a.blocks->block_kv = 48;
                  }});
  return list;
}

// Values that hold the address of `field` and nothing else.
std::set<std::string> addresses_of(const std::string& field) {
  if (field == "mask.data") return {"row_mask", "mask_from", "keep"};
  if (field == "k.data" || field == "v.data") {
    const std::string name = field.substr(0, 1);
    return {name, "gathered " + name, "map of " + name, "map of " + name + "_tail"};
  }
  if (field == "seqlens_kv") return {field, "gathered lengths", "lengths in place"};
  if (field.starts_with("blocks.")) return {field.substr(0, field.rfind('.'))};
  if (field.ends_with(".data")) {
    const std::string name = field.substr(0, field.find('.'));
    return {name, "map of " + name, "map of " + name + "_tail"};
  }
  return {field};  // lse, seqlens_q, seqlens_kv
}

}  // namespace

TEST_CASE("what the problem does not say changes nothing but addresses") {
  std::set<std::string> told, silent, refused;
  for (const ForwardArgs& base : bases()) {
    const Outcome before = outcome(base, codegen::find_arch("sm_90a"));
    for (const auto& [field, change] : all_mutations()) {
      ForwardArgs args = base;
      change(args);
      if (!test::refusal(args).empty()) {
        refused.insert(field);
        continue;
      }
      const Outcome after = outcome(args, codegen::find_arch("sm_90a"));
      CAPTURE(field);
      CAPTURE(problem::describe(after.problem));
      if (problem::plan_key(after.problem) == problem::plan_key(before.problem)) {
        // Plans are looked up by this key: what it leaves out must not reach a kernel's text.
        CHECK(after.kernels == before.kernels);
      }
      CHECK((after.kernels == before.kernels) == (after.keys == before.keys));
      if (after.problem != before.problem) {
        told.insert(field);
        continue;
      }
      silent.insert(field);
      CHECK(after.kernels == before.kernels);
      for (const auto& [name, value] : after.values) {
        if (addresses_of(field).contains(name)) continue;
        CHECK_MESSAGE(value == before.values.at(name), name);
      }
    }
  }
  // Each field matters somewhere, or the case above says nothing about it.
  for (const auto& [field, change] : all_mutations()) {
    CAPTURE(field);
    // The last axis has stride 1 in q, k, v and out, and counts of lists have none; key indices have
    // no rows.
    const bool fixed = field == "blocks.counts.strides[3]" || field == "key_indices.strides[2]" ||
                       (field.ends_with("strides[3]") && field[0] != 'm' && field[0] != 'b');
    CHECK((told.contains(field) || fixed || refused.contains(field)));
  }
  for (const char* field : {"q.data", "mask.data", "bias.data", "q.strides[0]", "out.strides[2]",
                            "lse", "seqlens_kv", "diagonal"}) {
    CAPTURE(std::string(field));
    CHECK(silent.contains(field));
    CHECK(told.contains(field));
  }
  for (const char* field : {"q.dtype", "k.shape[0]", "v.shape[2]", "mask.shape[1]", "bias.dtype"}) {
    CAPTURE(std::string(field));
    CHECK(refused.contains(field));
  }
}

TEST_CASE("every value of a legal call reaches a kernel") {
  // The converse: where the problem differs, so does something that is launched.
  std::size_t compared = 0;
  for (const ForwardArgs& base : bases()) {
    const Outcome before = outcome(base, codegen::find_arch("sm_90a"));
    for (const auto& [field, change] : mutations()) {
      ForwardArgs args = base;
      change(args);
      if (!test::refusal(args).empty()) continue;
      const Outcome after = outcome(args, codegen::find_arch("sm_90a"));
      if (after.problem == before.problem) continue;
      ++compared;
      CAPTURE(field);
      CAPTURE(problem::describe(before.problem));
      CAPTURE(problem::describe(after.problem));
      const bool differs = after.kernels != before.kernels || after.values != before.values;
      CHECK(differs);
    }
  }
  CHECK(compared > 300);
}

TEST_CASE("another architecture is another kernel even where the text is the same") {
  const ForwardArgs args = test::forward_args();
  const Outcome a = outcome(args, codegen::find_arch("sm_86"));
  const Outcome b = outcome(args, codegen::find_arch("sm_89"));
  REQUIRE(a.kernels == b.kernels);
  CHECK(a.keys != b.keys);
}
