#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "attnjit/error.hpp"
#include "instance/host_problem.hpp"
#include "reference/forward.hpp"
#include "tensor/half.hpp"

namespace attnjit::instance {
namespace {

using reference::Arithmetic;
using reference::ForwardResult;
using reference::Rows;
using tensor::load;
using tensor::MaskKind;

using Four = std::array<std::int64_t, 4>;

ProblemSpec backward_spec() {
  ProblemSpec spec;
  spec.batch = 2;
  spec.heads_q = 4;
  spec.heads_kv = 2;
  spec.seqlen_q = 10;
  spec.seqlen_kv = 12;
  spec.head_dim = 8;
  spec.head_dim_v = 16;
  spec.mask = "b1qk";
  spec.mask_kind = MaskKind::kDeadRows;
  spec.bias = "1h1k";
  spec.backward = true;
  spec.want_dlse = true;
  spec.want_dbias = true;
  return spec;
}

TEST_CASE("a backward problem adds its tensors, and out and lse become inputs") {
  const HostProblem problem(backward_spec(), 1);
  const BackwardArgs args = problem.backward_args();
  CHECK(args.dout.shape == Four{2, 4, 10, 16});
  CHECK(args.dq.shape == args.forward.q.shape);
  CHECK(args.dk.shape == args.forward.k.shape);
  CHECK(args.dv.shape == args.forward.v.shape);
  CHECK(args.dbias->shape == Four{1, 4, 1, 12});
  CHECK(args.dbias->dtype == DType::kBFloat16);
  CHECK(args.dlse != nullptr);
  for (const BufferRole role : {BufferRole::kOut, BufferRole::kLse, BufferRole::kDout}) {
    CHECK_FALSE(problem.find(role)->is_output());
  }
  for (const BufferRole role :
       {BufferRole::kDq, BufferRole::kDk, BufferRole::kDv, BufferRole::kDbias}) {
    CHECK(problem.find(role)->is_output());
  }
  CHECK(problem.check_inputs() == "");
  CHECK(problem.check_guards() == "");
  CHECK(problem.check_written().find("dbias: 48 elements were never written") != std::string::npos);
}

TEST_CASE("out and lse are those of the rounded reference") {
  const HostProblem problem(backward_spec(), 2);
  const ForwardArgs args = problem.args();
  const ForwardResult want = reference::forward(args, Arithmetic::kRounded, Rows::every(), 2);
  int dead = 0;
  for (std::size_t row = 0; row < want.lse.size(); ++row) {
    REQUIRE(args.lse[row] == want.lse[row]);
    dead += std::isinf(args.lse[row]) ? 1 : 0;
    for (std::size_t d = 0; d < 16; ++d) {
      const auto index = static_cast<std::int64_t>(row * 16 + d);
      REQUIRE(load(args.out.data, args.out.dtype, index) == want.out[row * 16 + d]);
    }
  }
  CHECK(dead == 2 * 4 * 2);
}

TEST_CASE("odd layouts give the gradients strides of their own") {
  ProblemSpec spec = backward_spec();
  spec.memory.v_differs = true;
  spec.memory.row_padding = 1;
  spec.memory.expand_broadcast = true;
  const HostProblem problem(spec, 1);
  const BackwardArgs args = problem.backward_args();
  CHECK(args.dq.strides == Four{10 * 4 * 17, 17, 4 * 17, 1});
  CHECK(args.dk.strides != args.forward.k.strides);
  CHECK(args.dv.strides == Four{2 * 12 * 17, 12 * 17, 17, 1});
  CHECK(args.dv.strides != args.forward.v.strides);
  CHECK(args.dout.strides != args.forward.out.strides);
  // The gradient of an expanded bias keeps its distinct elements only.
  CHECK(args.forward.bias->shape == Four{2, 4, 10, 12});
  CHECK(args.dbias->shape == Four{1, 4, 1, 12});
  CHECK(args.dbias->strides[3] == 1);
}

TEST_CASE("an expanded dout is one row for all") {
  ProblemSpec spec = backward_spec();
  spec.memory.expand_dout = true;
  spec.poison_dropped_keys = true;
  const HostProblem problem(spec, 1);
  const Tensor dout = problem.backward_args().dout;
  CHECK(dout.shape == Four{2, 4, 10, 16});
  CHECK(dout.strides == Four{0, 0, 0, 1});
  CHECK(std::isfinite(load(dout.data, dout.dtype, 15)));  // dead rows share it: no poison
}

TEST_CASE("dead rows hold NaN if dropped keys are poisoned") {
  ProblemSpec spec = backward_spec();
  for (const bool poisoned : {false, true}) {
    spec.poison_dropped_keys = poisoned;
    const HostProblem problem(spec, 1);
    const BackwardArgs args = problem.backward_args();
    int wrong = 0;
    for (std::int64_t row = 0; row < 2 * 4 * 10; ++row) {
      const bool dead = std::isinf(args.forward.lse[row]);
      wrong += std::isnan(args.dlse[row]) != (dead && poisoned);
      bool finite = true;
      for (std::int64_t d = 0; d < 16; ++d) {
        finite &= std::isfinite(load(args.dout.data, args.dout.dtype, row * 16 + d));
      }
      wrong += finite == (dead && poisoned);
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("the backward's fields change nothing of the forward's inputs") {
  ProblemSpec spec = backward_spec();
  const HostProblem with(spec, 1);
  spec.backward = spec.want_dlse = spec.want_dbias = false;
  const HostProblem without(spec, 1);
  for (const BufferRole role : {BufferRole::kQ, BufferRole::kV, BufferRole::kMask}) {
    CHECK(with.find(role)->checksum() == without.find(role)->checksum());
  }
  CHECK(without.find(BufferRole::kOut)->is_output());
  CHECK(without.find(BufferRole::kDout) == nullptr);
  CHECK_THROWS_AS(without.backward_args(), Error);
}

TEST_CASE("mirrored bases give the same backward call") {
  const HostProblem problem(backward_spec(), 1);
  std::vector<void*> bases;
  for (const HostBuffer& buffer : problem.buffers()) {
    bases.push_back(static_cast<std::byte*>(buffer.data()) - buffer.data_offset());
  }
  const BackwardArgs here = problem.backward_args();
  const BackwardArgs there = problem.backward_args_at(bases);
  CHECK(here.dq.data == there.dq.data);
  CHECK(here.dk.data == there.dk.data);
  CHECK(here.dv.data == there.dv.data);
  CHECK(here.dbias->data == there.dbias->data);
  CHECK(here.dlse == there.dlse);
  CHECK(here.forward.lse == there.forward.lse);
  bases.pop_back();
  CHECK_THROWS_AS(problem.backward_args_at(bases), Error);
}

TEST_CASE("backward specs that contradict themselves are refused") {
  ProblemSpec spec = backward_spec();
  SUBCASE("dbias without a bias") { spec.bias.clear(); }
  SUBCASE("no lse") { spec.want_lse = false; }
  SUBCASE("dlse of a forward") { spec.backward = spec.want_dbias = false; }
  SUBCASE("a 16-bit dbias of an fp32 bias") {
    spec.bias_dtype = DType::kFloat32;
    spec.dbias_dtype = DType::kBFloat16;
  }
  CHECK_THROWS_AS(HostProblem(spec, 1), Error);
}

TEST_CASE("the description of a backward names its fields") {
  ProblemSpec spec = backward_spec();
  spec.dbias_dtype = DType::kFloat32;
  spec.memory.expand_dout = true;
  CHECK(describe(spec) ==
        "bf16 b2 h4/2 q10 k12 d8 dv16 mask=b1qk:dead-rows bias=1h1k:normal:bf16 backward dlse "
        "dbias:fp32 expanded-dout");
}

}  // namespace
}  // namespace attnjit::instance
