// Packed sequences of equal lengths hold what a batch of them holds.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "instance/host_problem.hpp"
#include "reference/backward.hpp"
#include "reference/forward.hpp"

namespace attnjit::reference {
namespace {

using instance::HostProblem;
using instance::ProblemSpec;
using Values = std::vector<double>;

constexpr std::int64_t kSequences = 4, kRows = 35, kKeys = 40;

// The same memory with sequences along the batch axis.
Tensor unpacked(Tensor tensor, std::int64_t rows) {
  tensor.shape[0] = kSequences;
  tensor.strides[0] = rows * tensor.strides[2];
  tensor.shape[2] = rows;
  return tensor;
}

// [batch, head, row] as [head, batch, row].
Values packed(const Values& values, std::int64_t heads) {
  const auto size = static_cast<std::int64_t>(values.size()) / (kSequences * heads);
  Values result;
  for (std::int64_t head = 0; head < heads; ++head) {
    for (std::int64_t b = 0; b < kSequences; ++b) {
      const auto first = values.begin() + (b * heads + head) * size;
      result.insert(result.end(), first, first + size);
    }
  }
  return result;
}

void expect_same(const Values& got, const Values& want) {
  REQUIRE(got.size() == want.size());
  double most = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    most = std::max(most, std::abs(got[i] - want[i]) / std::max(1.0, std::abs(want[i])));
  }
  CHECK(most < 1e-12);
}

void expect_same(const Gradient& got, const Gradient& want, std::int64_t heads) {
  expect_same(got.values, packed(want.values, heads));
  expect_same(got.terms, packed(want.terms, heads));
}

ProblemSpec equal_lengths() {
  ProblemSpec spec{.batch = kSequences,
                   .heads_q = 4,
                   .heads_kv = 2,
                   .seqlen_q = kSequences * kRows,
                   .seqlen_kv = kSequences * kKeys,
                   .head_dim = 16,
                   .packed = true};
  spec.causal = spec.use_sink = spec.use_seqlens_q = spec.use_seqlens_kv = true;
  spec.diagonal = Diagonal::kBottomRight;
  for (std::int32_t b = 0; b <= kSequences; ++b) {
    spec.cu_seqlens_q.push_back(b * kRows);
    spec.cu_seqlens_kv.push_back(b * kKeys);
  }
  spec.backward = spec.want_dbias = spec.want_dsink = true;
  return spec;
}

TEST_CASE("packed sequences of equal lengths are a batch") {
  for (const auto& [mask, bias] : {std::pair{"bhqk", "1gqk"},
                                   {"1h1k", "bh1k"},
                                   {"sgq1/2", "shqk/2"},
                                   {"pgq1/2x1", "phqk/2x1"}}) {
    CAPTURE(bias);
    ProblemSpec spec = equal_lengths();
    spec.mask = mask;
    spec.bias = bias;
    const HostProblem host(spec, 1);
    const BackwardArgs args = host.backward_args();
    BackwardArgs batch = args;
    ForwardArgs& call = batch.forward;
    for (Tensor* t : {&call.q, &call.out, &batch.dout, &batch.dq}) *t = unpacked(*t, kRows);
    for (Tensor* t : {&call.k, &call.v, &batch.dk, &batch.dv}) *t = unpacked(*t, kKeys);
    call.cu_seqlens_q = call.cu_seqlens_kv = nullptr;
    call.num_sequences = 0;

    const auto ours = forward(args.forward, Arithmetic::kExact, Rows::every(), 1);
    const auto theirs = forward(call, Arithmetic::kExact, Rows::every(), 1);
    expect_same(ours.out, packed(theirs.out, 4));
    const auto found = backward(args, Arithmetic::kExact, Planes::every(), 1);
    const auto wanted = backward(batch, Arithmetic::kExact, Planes::every(), 1);
    expect_same(found.dq, wanted.dq, 4);
    expect_same(found.dk, wanted.dk, 2);
    expect_same(found.dv, wanted.dv, 2);
    expect_same(found.dbias.values, wanted.dbias.values);
    expect_same(found.dbias.terms, wanted.dbias.terms);
    expect_same(found.dsink.values, wanted.dsink.values);
  }
}

TEST_CASE("rows and keys past the last sequence get nothing, selected or not") {
  ProblemSpec spec = equal_lengths();
  spec.backward = spec.want_dbias = spec.want_dsink = false;
  spec.seqlen_q += 20;
  spec.seqlen_kv += 20;
  const HostProblem host(spec, 1);
  const auto all = forward(host.args(), Arithmetic::kExact, Rows::every(), 1);
  const auto some =
      forward(host.args(), Arithmetic::kExact, Rows::only({0, 34, 35, 139, 140, 159}), 1);
  CHECK(all.lse[159] == -std::numeric_limits<double>::infinity());
  CHECK(some.lse.size() == 4 * 6);
  for (const std::size_t at : {0, 1, 2, 3, 4, 5}) {
    constexpr std::size_t kSelected[] = {0, 34, 35, 139, 140, 159};
    CHECK(some.lse[6 + at] == all.lse[160 + kSelected[at]]);
    CHECK(some.dead[6 + at] == all.dead[160 + kSelected[at]]);
  }
}

}  // namespace
}  // namespace attnjit::reference
