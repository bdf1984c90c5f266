// Expressions in the reference, against what says the same: masks, bands, softcaps, slopes.
#include <doctest/doctest.h>

#include <string>

#include "expr/interned.hpp"
#include "instance/host_problem.hpp"
#include "reference/backward.hpp"
#include "tensor/half.hpp"

namespace attnjit::reference::reference_expression_test {
namespace {

using instance::BufferRole;
using instance::HostProblem;
using instance::ProblemSpec;

const ProblemSpec kSpec = {.batch = 2,
                           .heads_q = 4,
                           .heads_kv = 2,
                           .seqlen_q = 33,
                           .seqlen_kv = 47,
                           .head_dim = 16};

void check_equal(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t n = 0; n < a.size(); ++n) {
    CAPTURE(n);
    REQUIRE(a[n] == doctest::Approx(b[n]).epsilon(1e-6));
  }
}

void check_same(const ProblemSpec& a, const ProblemSpec& b) {
  const HostProblem first(a, 1), second(b, 1);
  if (!a.backward) {
    const auto one = forward(first.args(), Arithmetic::kExact, Rows::every(), 1);
    const auto other = forward(second.args(), Arithmetic::kExact, Rows::every(), 1);
    check_equal(one.out, other.out);
    check_equal(one.lse, other.lse);
    return;
  }
  const auto one = backward(first.backward_args(), Arithmetic::kExact, Planes::every(), 1);
  const auto other = backward(second.backward_args(), Arithmetic::kExact, Planes::every(), 1);
  check_equal(one.dq.values, other.dq.values);
  check_equal(one.dk.values, other.dk.values);
  check_equal(one.dv.values, other.dv.values);
}

TEST_CASE("a keep expression of positions is a band") {
  ProblemSpec said = kSpec, built_in = kSpec;
  said.diagonal = built_in.diagonal = Diagonal::kBottomRight;
  said.keep = "j <= i + off && j >= i + off - 9";
  built_in.causal = true;
  built_in.window = {9, 0};
  for (const bool backward : {false, true}) {
    said.backward = built_in.backward = backward;
    check_same(said, built_in);
  }
}

TEST_CASE("a score of a softcap is the softcap, and slopes of ALiBi are ALiBi") {
  ProblemSpec said = kSpec, built_in = kSpec;
  said.score = "0.75 * tanh(s / 0.75)";
  built_in.softcap = 0.75f;
  for (const bool backward : {false, true}) {
    said.backward = built_in.backward = backward;
    check_same(said, built_in);
  }
  said.score = "s - 0.25 * abs(i + off - j)";
  said.diagonal = built_in.diagonal = Diagonal::kTopLeft;
  built_in.softcap.reset();
  built_in.alibi = "h";
  built_in.slopes = {0.25f};
  for (const bool backward : {false, true}) {
    said.backward = built_in.backward = backward;
    check_same(said, built_in);
  }
}

TEST_CASE("a keep expression that reads a mask is that mask, head by head and packed") {
  for (const bool packed : {false, true}) {
    ProblemSpec said = kSpec, built_in = kSpec;
    said.packed = built_in.packed = packed;
    said.cu_seqlens_q = {0, 13, 33};
    said.cu_seqlens_kv = {0, 20, 47};
    if (!packed) said.cu_seqlens_q.clear(), said.cu_seqlens_kv.clear();
    built_in.cu_seqlens_q = said.cu_seqlens_q;
    built_in.cu_seqlens_kv = said.cu_seqlens_kv;
    built_in.mask = "bh1k";
    said.keep = "m[b, h, j]";
    said.operands = {instance::parse_operand("m=bool:b,h,47")};
    CAPTURE(packed);
    HostProblem first(said, 1), second(built_in, 1);
    const Tensor mask = second.find(BufferRole::kMask)->tensor();
    const Tensor operand = first.find(BufferRole::kOperand)->tensor();
    const std::int64_t keys = mask.shape[3];
    for (std::int64_t plane = 0; plane < 8; ++plane) {
      for (std::int64_t key = 0; key < keys; ++key) {
        const double kept = tensor::load(mask.data, mask.dtype, plane * keys + key);
        tensor::store(operand.data, operand.dtype, plane * 47 + key, kept);
      }
    }
    const auto one = forward(first.args(), Arithmetic::kExact, Rows::every(), 1);
    const auto other = forward(second.args(), Arithmetic::kExact, Rows::every(), 1);
    check_equal(one.out, other.out);
    check_equal(one.lse, other.lse);
  }
}

TEST_CASE("a row that a keep expression leaves no key is dead, and -inf is a key of weight 0") {
  ProblemSpec spec = kSpec;
  spec.keep = "i % 2 == 0";
  const HostProblem problem(spec, 1);
  const auto result = forward(problem.args(), Arithmetic::kExact, Rows::every(), 1);
  CHECK(result.dead[1] == 1);
  CHECK(result.dead[2] == 0);
  ProblemSpec said = kSpec, kept = kSpec;
  said.score = "j % 3 == 0 ? -inf : s";
  kept.keep = "j % 3 != 0";
  check_same(said, kept);
  said.backward = kept.backward = true;
  check_same(said, kept);
}

}  // namespace
}  // namespace attnjit::reference::reference_expression_test
