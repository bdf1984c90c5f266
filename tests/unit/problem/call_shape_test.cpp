// Calls of one shape have one problem: no field that a problem depends on may be left out.
#include "problem/call_shape.hpp"

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <vector>

#include "unit/backward_fixtures.hpp"
#include "unit/forward_mutations.hpp"

using namespace attnjit;
using attnjit::test::fake_address;
using attnjit::test::Mutation;
using attnjit::test::refusal;
using problem::same_shape;
using problem::shape_hash;

namespace {

// Starting points that have different features.
std::vector<ForwardArgs> bases() {
  std::vector<ForwardArgs> list(5, test::forward_args());
  list[1].mask = test::mask(list[1], "bgqk");
  list[1].causal = true;
  list[1].diagonal = Diagonal::kBottomRight;
  list[1].sink = Tensor::contiguous(fake_address(33), DType::kFloat32, {1, 32, 1, 1});
  list[2].bias = test::bias(list[2], "1hqk");
  list[2].prepared_mask = {
      .data = fake_address(23), .shape = {1, 8, 1, 192}, .for_backward = false};
  list[2].lse = fake_address<float>(6);
  list[2].window = {3, 4};
  list[2].diagonal = Diagonal::kTopLeft;
  list[3].alibi_slopes = Tensor::contiguous(fake_address(34), DType::kFloat32, {4, 32, 1, 1});
  list[3].diagonal = Diagonal::kTopLeft;
  test::page_keys(list[3], 64);
  list[3].tail_mask = test::tail_mask(list[3]);
  list[4] = test::forward_args({.batch = 8, .heads_q = 4, .heads_kv = 2});
  list[4].mask = test::mask(list[4], "s1qk");
  list[4].bias = test::bias(list[4], "shqk");
  return list;
}

std::vector<Mutation> more_mutations() {
  std::vector<Mutation> list = test::mutations();
  for (const auto tensor :
       {&ForwardArgs::sink, &ForwardArgs::alibi_slopes, &ForwardArgs::tail_mask}) {
    test::add_tensor(list, "optional",
                     [=](ForwardArgs& a) { return a.*tensor ? &*(a.*tensor) : nullptr; });
    list.push_back({"optional", [=](ForwardArgs& a) { (a.*tensor).reset(); }});
  }
  for (const std::uintptr_t by : {4, 16}) {
    list.push_back({"prepared_mask.data", [=](ForwardArgs& a) {
                      if (!a.prepared_mask) return;
                      const auto* const data = static_cast<const char*>(a.prepared_mask->data);
                      a.prepared_mask->data = data + by;
                    }});
  }
  list.push_back({"prepared_mask.for_backward", [](ForwardArgs& a) {
                    if (a.prepared_mask) a.prepared_mask->for_backward = true;
                  }});
  return list;
}

// What make_problem() says of both is one thing if they have one shape.
template <class Args>
void expect_one_problem(const Args& a, const Args& b) {
  CHECK(same_shape(a, b) == same_shape(b, a));
  if (!same_shape(a, b)) return;
  CHECK(shape_hash(a) == shape_hash(b));
  // Messages name addresses.
  REQUIRE(refusal(a).empty() == refusal(b).empty());
  if (refusal(a).empty()) CHECK(problem::make_problem(a) == problem::make_problem(b));
}

}  // namespace

TEST_CASE("calls of one shape have one problem, whichever field is another") {
  std::size_t same = 0, others = 0;
  for (const ForwardArgs& base : bases()) {
    REQUIRE(refusal(base) == "");
    CHECK(same_shape(base, base));
    for (const auto& [field, change] : more_mutations()) {
      CAPTURE(field);
      ForwardArgs args = base;
      change(args);
      expect_one_problem(base, args);
      ++(same_shape(base, args) ? same : others);

      // The gradients of both.
      const BackwardArgs backward = test::backward_args(base);
      BackwardArgs other = backward;
      change(other.forward);
      expect_one_problem(backward, other);
    }
  }
  CHECK(same > 100);
  CHECK(others > 1000);
}

TEST_CASE("addresses are of one shape that are null alike and lie alike within 16 bytes") {
  const ForwardArgs args = test::forward_args();
  ForwardArgs moved = args;
  for (Tensor* const t : {&moved.q, &moved.k, &moved.v, &moved.out}) {
    t->data = static_cast<char*>(t->data) + 4096 + 16;
  }
  CHECK(same_shape(args, moved));
  moved.v.data = static_cast<char*>(moved.v.data) + 2;
  CHECK_FALSE(same_shape(args, moved));
  moved = args;
  moved.lse = fake_address<float>(6);
  CHECK_FALSE(same_shape(args, moved));
  moved = args;
  moved.q.data = nullptr;
  CHECK_FALSE(same_shape(args, moved));
}

TEST_CASE("every member of a backward is in its shape") {
  const BackwardArgs args = test::bias_args("1hqk");
  const auto expect_other = [&](const char* member, auto change) {
    CAPTURE(std::string(member));
    BackwardArgs other = args;
    change(other);
    CHECK_FALSE(same_shape(args, other));
    expect_one_problem(args, other);
  };
  expect_other("forward", [](BackwardArgs& a) { a.forward.softcap = 1.0f; });
  expect_other("dout", [](BackwardArgs& a) { a.dout.strides[0] = 0; });
  expect_other("dlse", [](BackwardArgs& a) { a.dlse = fake_address<float>(20); });
  expect_other("dq", [](BackwardArgs& a) { a.dq.strides[0] *= 2; });
  expect_other("dk", [](BackwardArgs& a) { a.dk.strides[0] *= 2; });
  expect_other("dv", [](BackwardArgs& a) { a.dv.strides[0] *= 2; });
  expect_other("dbias", [](BackwardArgs& a) { a.dbias.reset(); });
  expect_other("dsink", [](BackwardArgs& a) { a.dsink = a.dq; });
  expect_other("deterministic", [](BackwardArgs& a) { a.deterministic = true; });
}

TEST_CASE("lengths, heads, strides and options have hashes of their own") {
  std::set<std::uint64_t> hashes;
  std::size_t calls = 0;
  const auto add = [&](const ForwardArgs& args) {
    hashes.insert(shape_hash(args));
    ++calls;
  };
  for (const std::int64_t batch : {1, 2, 3, 8}) {
    for (const std::int64_t heads : {8, 16}) {
      for (std::int64_t length = 1; length <= 64; ++length) {
        ForwardArgs args = test::forward_args(
            {.batch = batch, .heads_q = heads, .seqlen_q = length, .seqlen_kv = 2 * length});
        add(args);
        args.causal = true;
        add(args);
        args.lse = fake_address<float>(6);
        add(args);
        args.q.strides[2] += 64;
        add(args);
        args.mask = test::mask(args, "b1qk");
        add(args);
      }
    }
  }
  CHECK(hashes.size() == calls);
}
