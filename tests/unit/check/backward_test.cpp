#include "reference/backward.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "check/verdict.hpp"
#include "tensor/fill.hpp"
#include "tensor/half.hpp"
#include "unit/instance_specs.hpp"

namespace attnjit::check {
namespace {

using instance::BufferRole;
using instance::HostProblem;
using instance::ProblemSpec;
using reference::Arithmetic;
using reference::Planes;
using tensor::load;
using tensor::store;

// With dead rows, gaps between rows, and strides of each gradient's own.
ProblemSpec small_spec() {
  ProblemSpec spec = instance::small_backward();
  spec.mask = "b1qk";
  spec.mask_kind = tensor::MaskKind::kDeadRows;
  spec.memory.v_differs = true;
  spec.memory.row_padding = 3;
  spec.poison_dropped_keys = true;
  return spec;
}

// A problem whose gradients hold the rounded result, as a good kernel leaves them.
HostProblem solved(const ProblemSpec& spec) {
  HostProblem problem(spec, 2);
  const BackwardArgs args = problem.backward_args();
  const auto result = reference::backward(args, Arithmetic::kRounded, Planes::every(), 2);
  tensor::store_dense(args.dq, result.dq.values);
  tensor::store_dense(args.dk, result.dk.values);
  tensor::store_dense(args.dv, result.dv.values);
  if (args.dbias) tensor::store_dense(*args.dbias, result.dbias.values);
  if (args.dsink) tensor::store_dense(*args.dsink, result.dsink.values);
  return problem;
}

std::int64_t index_of(const Tensor& t, std::int64_t a, std::int64_t b, std::int64_t c,
                      std::int64_t d) {
  return a * t.strides[0] + b * t.strides[1] + c * t.strides[2] + d * t.strides[3];
}

TEST_CASE("the rounded gradients pass, for both dtypes and an fp32 dbias") {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    for (const DType dbias : {dtype, DType::kFloat32}) {
      ProblemSpec spec = small_spec();
      spec.dtype = dtype;
      spec.dbias_dtype = dbias;
      const BackwardVerdict verdict = judge_backward(solved(spec), Planes::every(), 2);
      CHECK_MESSAGE(verdict.pass, verdict.text);
      CHECK(verdict.text.empty());
      CHECK(verdict.dq.elements_judged == 2 * 4 * 70 * 16);
      CHECK(verdict.dk.elements_judged == 2 * 2 * 90 * 16);
      CHECK(verdict.dv.elements_judged == 2 * 2 * 90 * 24);
      CHECK(verdict.dbias.elements_judged == 4 * 70 * 90);
      for (const auto* report : {&verdict.dq, &verdict.dk, &verdict.dv, &verdict.dbias}) {
        CHECK(report->worst_ratio > 0.05);
        CHECK(report->worst_ratio < 0.6);
      }
    }
  }
}

TEST_CASE("the rounded gradients of random problems pass") {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    ProblemSpec spec = instance::random_spec(seed);
    spec.backward = true;
    spec.want_dbias = !spec.bias.empty();
    spec.want_dlse = seed % 2 == 1;
    CAPTURE(describe(spec));
    const BackwardVerdict verdict = judge_backward(solved(spec), Planes::every(), 2);
    CHECK_MESSAGE(verdict.pass, verdict.text);
  }
}

TEST_CASE("a wrong element of any gradient is found and named") {
  for (const BufferRole role :
       {BufferRole::kDq, BufferRole::kDk, BufferRole::kDv, BufferRole::kDbias}) {
    HostProblem problem = solved(small_spec());
    const instance::HostBuffer& buffer = *problem.find(role);
    const Tensor tensor = buffer.tensor();
    const std::int64_t at = index_of(tensor, 0, 1, 31, 5);
    store(tensor.data, tensor.dtype, at, 1 + load(tensor.data, tensor.dtype, at));
    const BackwardVerdict verdict = judge_backward(problem, Planes::every(), 2);
    CHECK_FALSE(verdict.pass);
    CHECK(verdict.text.starts_with(buffer.name() + ":\nbatch 0 head 1: "));
    CHECK(verdict.text.find("at row 31 column 5 got ") != std::string::npos);
    CHECK(verdict.dq.planes_failed + verdict.dk.planes_failed + verdict.dv.planes_failed +
              verdict.dbias.planes_failed ==
          1);
  }
}

TEST_CASE("a wrong gradient of a sink is found and named") {
  ProblemSpec spec = small_spec();
  spec.use_sink = spec.want_dsink = true;
  HostProblem problem = solved(spec);
  const BackwardVerdict right = judge_backward(problem, Planes::every(), 2);
  CHECK_MESSAGE(right.pass, right.text);
  CHECK(right.dsink.worst_ratio > 0);
  const Tensor dsink = *problem.backward_args().dsink;
  const std::int64_t at = index_of(dsink, 0, 2, 0, 0);
  store(dsink.data, dsink.dtype, at, 1 + load(dsink.data, dsink.dtype, at));
  const BackwardVerdict wrong = judge_backward(problem, Planes::every(), 2);
  CHECK_FALSE(wrong.pass);
  CHECK(wrong.text.starts_with("dsink:\n"));
  CHECK(wrong.dsink.planes_failed == 1);
}

TEST_CASE("a dq that forgets dlse is found in every plane") {
  HostProblem problem = solved(small_spec());
  ProblemSpec spec = small_spec();
  spec.want_dlse = false;
  const HostProblem without = solved(spec);
  std::ranges::copy(without.find(BufferRole::kDq)->bytes(),
                    problem.find(BufferRole::kDq)->bytes().begin());
  CHECK(judge_backward(problem, Planes::every(), 2).dq.planes_failed == 8);
}

TEST_CASE("an unwritten element is found") {
  HostProblem problem = solved(small_spec());
  const HostProblem fresh(small_spec(), 2);
  const Tensor dk = problem.backward_args().dk;
  const Tensor poison = fresh.backward_args().dk;
  const std::int64_t at = index_of(dk, 1, 1, 89, 15);
  static_cast<std::uint16_t*>(dk.data)[at] = static_cast<const std::uint16_t*>(poison.data)[at];
  const BackwardVerdict verdict = judge_backward(problem, Planes::every(), 2);
  CHECK_FALSE(verdict.pass);
  CHECK(verdict.text.starts_with("dk: 1 elements were never written, the first [1, 1, 89, 15]\n"));
  CHECK(verdict.dk.worst_ratio == INFINITY);
}

TEST_CASE("a write outside a gradient is found") {
  HostProblem problem = solved(small_spec());
  const Tensor dbias = problem.backward_args().dbias.value();
  static_cast<std::uint16_t*>(dbias.data)[90] = 0;  // the padding of the first row
  CHECK(judge_backward(problem, Planes::every(), 2).text ==
        "dbias: 2 bytes outside the tensor changed, the first at byte 180, between its rows\n");
}

TEST_CASE("a changed input is found, out and lse included") {
  for (const BufferRole role :
       {BufferRole::kOut, BufferRole::kLse, BufferRole::kDout, BufferRole::kDlse}) {
    HostProblem problem = solved(small_spec());
    instance::HostBuffer& buffer = *problem.find(role);
    buffer.bytes()[buffer.data_offset()] ^= std::byte{1};
    const BackwardVerdict verdict = judge_backward(problem, Planes::every(), 2);
    CHECK_FALSE(verdict.pass);
    CHECK(verdict.text.starts_with(buffer.name() + ": the input was modified\n"));
  }
}

TEST_CASE("where the terms of ds cancel, fp32 noise passes and no more") {
  ProblemSpec spec;
  spec.seqlen_q = spec.seqlen_kv = 8;
  spec.causal = true;
  spec.diagonal = Diagonal::kTopLeft;
  spec.backward = true;
  HostProblem problem = solved(spec);
  const Tensor dq = problem.backward_args().dq;
  // Row 0 keeps one key, so its dq is 0; fp32 sums of |dout| |v| / 8 |k| = 64 leave some 1e-6.
  for (std::int64_t d = 0; d < 64; ++d) store(dq.data, dq.dtype, d, 1e-6);
  CHECK(judge_backward(problem, Planes::every(), 1).pass);
  for (std::int64_t d = 0; d < 64; ++d) store(dq.data, dq.dtype, d, 1e-4);
  const BackwardVerdict verdict = judge_backward(problem, Planes::every(), 1);
  CHECK(verdict.text.find("1 rows fail") != std::string::npos);
  CHECK(verdict.text.find("at row 0 ") != std::string::npos);
}

TEST_CASE("a dead row must be exactly 0") {
  HostProblem problem = solved(small_spec());
  const Tensor dq = problem.backward_args().dq;
  store(dq.data, dq.dtype, index_of(dq, 1, 2, 7, 0), 1e-30);
  CHECK(judge_backward(problem, Planes::every(), 2).dq.worst_ratio == INFINITY);
}

TEST_CASE("only selected planes are judged") {
  HostProblem problem = solved(small_spec());
  const Tensor dv = problem.backward_args().dv;
  store(dv.data, dv.dtype, index_of(dv, 0, 0, 3, 3), 99);
  const Planes planes = Planes::only({{0, 1}, {1, 1}});
  const BackwardVerdict verdict = judge_backward(problem, planes, 2);
  CHECK_MESSAGE(verdict.pass, verdict.text);
  CHECK(verdict.dv.planes == 2);
  CHECK(verdict.dq.planes == 4);
  CHECK(verdict.dbias.planes == 2);
  CHECK_FALSE(judge_backward(problem, Planes::only({{0, 0}}), 2).pass);
}

TEST_CASE("affordable planes keep to the budget and to whole rows of dbias") {
  ProblemSpec spec = small_spec();
  spec.batch = 50;
  spec.heads_q = 16;
  spec.heads_kv = 8;
  CHECK(affordable_planes(spec, 1e12).all);
  const double plane = 5.0 * 2 * 70 * 90 * (16 + 24);
  const auto sets = [](const Planes& planes) {
    std::set<std::pair<std::int64_t, std::int64_t>> distinct;
    for (const auto& p : planes.list) distinct.insert({p.batch, p.head_kv});
    CHECK(distinct.size() == planes.list.size());
    return distinct;
  };
  spec.want_dbias = false;
  const auto free = sets(affordable_planes(spec, 20 * plane));
  CHECK(free.size() > 10);
  CHECK(free.size() <= 20);
  CHECK(free.count({0, 0}) == 1);
  CHECK(free.count({49, 7}) == 1);
  spec.want_dbias = true;  // 1hqk: a kv head of all batch elements together
  const auto columns = sets(affordable_planes(spec, 150 * plane));
  CHECK(columns.size() >= 2 * 50);
  CHECK(columns.size() <= 150);
  for (const auto& [batch, head] : columns) CHECK(columns.count({49 - batch, head}) == 1);
  spec.bias = "b11k";
  const auto rows = sets(affordable_planes(spec, 1));
  CHECK(rows.size() == 2 * 8);
  for (const auto& [batch, head] : rows) CHECK(rows.count({batch, 7 - head}) == 1);
  spec.bias = "11qk";
  CHECK(affordable_planes(spec, 1).all);
  spec.want_dbias = false;
  CHECK_FALSE(affordable_planes(spec, 1).all);
  spec.grad = {"x"};  // the reference has this gradient of all planes or not at all
  CHECK(affordable_planes(spec, 1).all);
}

}  // namespace
}  // namespace attnjit::check
