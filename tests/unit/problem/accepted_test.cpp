// Legal edge cases: calls that the contract allows and other libraries refuse or get wrong.
#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "problem/plan_key.hpp"
#include "unit/forward_fixtures.hpp"

using namespace attnjit;
using attnjit::test::bias;
using attnjit::test::fake_address;
using attnjit::test::forward_args;
using attnjit::test::mask;
using attnjit::test::refusal;
using attnjit::test::Sizes;
using problem::make_problem;

namespace {

void check_accepted(const ForwardArgs& args) {
  const std::string message = refusal(args);
  CHECK_MESSAGE(message.empty(), message);
}

template <class Change>
ForwardArgs changed(Change change) {
  ForwardArgs args = forward_args();
  change(args);
  return args;
}

}  // namespace

TEST_CASE("axes may be empty, and tensors without elements need no memory") {
  for (const Sizes& sizes : {Sizes{.batch = 0}, Sizes{.seqlen_q = 0}, Sizes{.seqlen_kv = 0},
                             Sizes{.batch = 0, .seqlen_q = 0, .seqlen_kv = 0}}) {
    ForwardArgs args = forward_args(sizes);
    args.mask = mask(args, "bhqk");
    args.bias = bias(args, "bhqk");
    args.causal = true;
    args.diagonal = Diagonal::kBottomRight;
    check_accepted(args);
    for (Tensor* tensor : {&args.q, &args.k, &args.v, &args.out, &*args.mask, &*args.bias}) {
      bool empty = false;
      for (const auto size : tensor->shape) empty |= size == 0;
      if (empty) tensor->data = nullptr;
    }
    check_accepted(args);
    CHECK(make_problem(args).empty() == (sizes.batch == 0 || sizes.seqlen_q == 0));
  }
}

TEST_CASE("an operand without elements is not read") {
  // Lk = 0: the output is defined (zeros), so the kernel runs, and there is nothing to read.
  ForwardArgs args = forward_args({.seqlen_kv = 0});
  args.mask = mask(args, "bhqk");
  args.bias = bias(args, "bhqk");
  args.mask->data = args.bias->data = nullptr;
  // As frameworks count: a size of 0 counts as 1 where strides are made.
  args.mask->strides = args.bias->strides = {32 * 128, 128, 1, 1};
  const problem::Problem p = make_problem(args);
  CHECK(p.mask.extent == problem::Extent::kAbsent);
  CHECK(p.bias.extent == problem::Extent::kAbsent);
}

TEST_CASE("sizes up to the limits") {
  check_accepted(forward_args({.head_dim = 1, .head_dim_v = 1}));
  check_accepted(forward_args({.head_dim = 256, .head_dim_v = 256}));
  check_accepted(forward_args({.head_dim = 33, .head_dim_v = 100}));
  check_accepted(forward_args(
      {.batch = 1, .heads_q = 1, .heads_kv = 1, .seqlen_q = 1, .seqlen_kv = problem::kMaxSeqlen}));
  check_accepted(forward_args(
      {.batch = 1, .heads_q = 1, .heads_kv = 1, .seqlen_q = problem::kMaxSeqlen, .seqlen_kv = 1}));
  check_accepted(forward_args({.batch = 70000, .heads_q = 1, .heads_kv = 1}));
  check_accepted(forward_args({.batch = 1, .heads_q = 70000, .heads_kv = 70000}));
  check_accepted(forward_args({.heads_q = 32, .heads_kv = 1}));
}

TEST_CASE("inputs may have any strides") {
  constexpr std::int64_t kHuge = std::int64_t{1} << 40;
  check_accepted(changed([](auto& a) { a.q.strides = {kHuge, -kHuge / 2, kHuge / 64, 1}; }));
  check_accepted(changed([](auto& a) { a.k.strides = {0, 0, 0, 1}; }));
  check_accepted(changed([](auto& a) { a.v.strides = {-7, 3, -1, 1}; }));
  for (const char* pattern : {"bhqk", "bgqk", "b11k", "1hq1", "1111"}) {
    ForwardArgs args = forward_args();
    args.mask = mask(args, pattern);
    args.bias = bias(args, pattern);
    args.mask->strides = {-kHuge, kHuge, -3, -1};
    args.bias->strides = {kHuge, 0, 5, 7};
    check_accepted(args);
    CHECK(make_problem(args).mask.vectorized == false);
  }
}

TEST_CASE("an output may lie anywhere without overlap") {
  // BSHD memory, padded rows, and reversed axes.
  check_accepted(changed([](auto& a) { a.out.strides = {128 * 32 * 128, 128, 32 * 128, 1}; }));
  check_accepted(changed([](auto& a) { a.out.strides = {1 << 21, 1 << 16, 130, 1}; }));
  check_accepted(changed([](auto& a) { a.out.strides = {-524288, 16384, -128, 1}; }));
  check_accepted(changed([](auto& a) { a.out.strides = {std::int64_t{1} << 50, 16384, 128, 1}; }));
}

TEST_CASE("strides of axes of size 1 do not matter") {
  const ForwardArgs dense = forward_args({.batch = 1,
                                          .heads_q = 1,
                                          .heads_kv = 1,
                                          .seqlen_q = 1,
                                          .seqlen_kv = 1,
                                          .head_dim = 8,
                                          .head_dim_v = 8});
  ForwardArgs odd = dense;
  for (Tensor* tensor : {&odd.q, &odd.k, &odd.v, &odd.out}) tensor->strides = {3, -5, 0, 1};
  REQUIRE(refusal(dense) == "");
  REQUIRE(refusal(odd) == "");
  CHECK(make_problem(odd) == make_problem(dense));
  CHECK(make_problem(odd).aligned);

  ForwardArgs thin = forward_args({.head_dim = 1, .head_dim_v = 1});
  for (Tensor* tensor : {&thin.q, &thin.k, &thin.v, &thin.out}) tensor->strides[3] = 77;
  check_accepted(thin);
}

TEST_CASE("options at the edge of what they may be") {
  check_accepted(changed([](auto& a) { a.scale = 0.0f; }));
  check_accepted(changed([](auto& a) { a.scale = -2.5f; }));
  check_accepted(changed([](auto& a) { a.scale = std::numeric_limits<float>::denorm_min(); }));
  check_accepted(changed([](auto& a) { a.scale = std::numeric_limits<float>::lowest(); }));
  check_accepted(changed([](auto& a) { a.diagonal = Diagonal::kTopLeft; }));
  check_accepted(changed([](auto& a) {
    a.window = {0, std::numeric_limits<std::int64_t>::max()};
    a.diagonal = Diagonal::kTopLeft;
  }));
  check_accepted(changed([](auto& a) {
    a.lse = fake_address<float>(6);
    a.seqlens_q = fake_address<std::int32_t>(7);
    a.seqlens_kv = fake_address<std::int32_t>(8);
  }));
}

TEST_CASE("a bias may have q's type or fp32, and begin at any element") {
  ForwardArgs args = forward_args();
  args.bias = bias(args, "bhqk");
  args.bias->data = reinterpret_cast<std::uint16_t*>(args.bias->data) + 1;
  check_accepted(args);
  CHECK_FALSE(make_problem(args).bias.vectorized);
  args.bias = test::operand(args, "bhqk", DType::kFloat32);
  check_accepted(args);
  CHECK(make_problem(args).bias.dtype == DType::kFloat32);
  args.bias->data = reinterpret_cast<float*>(args.bias->data) + 1;
  check_accepted(args);
}
