// Gradients of operands in the reference, against differences of the forward and against dbias.
#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "instance/host_problem.hpp"
#include "reference/backward.hpp"
#include "tensor/half.hpp"

namespace attnjit::reference::operand_gradient_test {
namespace {

using instance::BufferRole;
using instance::HostProblem;
using instance::ProblemSpec;

const ProblemSpec kSpec = {.batch = 2,
                           .heads_q = 4,
                           .heads_kv = 2,
                           .seqlen_q = 23,
                           .seqlen_kv = 31,
                           .head_dim = 16,
                           .backward = true,
                           .want_dlse = true};

// The sum that dout and dlse make of the outputs, whose derivative the gradient is.
double loss(const HostProblem& problem) {
  const BackwardArgs args = problem.backward_args();
  const auto result = forward(args.forward, Arithmetic::kExact, Rows::every(), 1);
  double sum = 0;
  std::size_t row = 0;
  const auto& [batch, heads, rows, columns] = args.dout.shape;
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t i = 0; i < rows; ++i, ++row) {
        for (std::int64_t d = 0; d < columns; ++d) {
          const std::int64_t at =
              b * args.dout.strides[0] + h * args.dout.strides[1] + i * args.dout.strides[2] + d;
          sum += tensor::load(args.dout.data, args.dout.dtype, at) *
                 result.out[row * static_cast<std::size_t>(columns) + static_cast<std::size_t>(d)];
        }
        if (result.dead[row] == 0) sum += args.dlse[row] * result.lse[row];
      }
    }
  }
  return sum;
}

// Compares the gradient of the only operand, dense and fp32, with central differences.
void check_differences(ProblemSpec spec) {
  CAPTURE(instance::describe(spec));
  HostProblem problem(spec, 1);
  const auto gradients =
      backward(problem.backward_args(), Arithmetic::kExact, Planes::every(), 1).operands;
  const Tensor operand = problem.find(BufferRole::kOperand)->tensor();
  auto* const data = static_cast<float*>(operand.data);
  REQUIRE(gradients.size() == spec.operands.size());
  for (std::size_t n = 0; n < gradients[0].values.size(); n += 1 + n / 7) {
    const float middle = data[n], step = 0x1p-10f;
    data[n] = middle + step;
    const double above = loss(problem), high = data[n];
    data[n] = middle - step;
    const double below = loss(problem), low = data[n];
    data[n] = middle;
    CAPTURE(n);
    CHECK(gradients[0].values[n] ==
          doctest::Approx((above - below) / (high - low)).epsilon(1e-4).scale(1));
  }
}

struct Said {
  const char* score;
  std::vector<const char*> operands;
};

const Said kScores[] = {
    {"s + x[h, clamp(j - i, -5, 5) + 5]", {"x=fp32:h,11"}},
    {"s * sigmoid(x)", {"x=fp32"}},
    {"3.0 * tanh((s + x[b, h, i, j]) / 3.0)", {"x=fp32:b,h,q,k"}},
    {"s * x[g] + 0.1 * exp(x[0] * s)", {"x=fp32:g"}},
    {"s + x[row[b, j]] * x[i // 4]", {"x=fp32:8", "row=int32:b,k:below/8"}},
    {"j < 9 ? s * x[h] : s - abs(x[h] - 0.1)", {"x=fp32:h"}},
};

TEST_CASE("gradients of operands are the derivatives of the outputs") {
  for (const Said& said : kScores) {
    ProblemSpec spec = kSpec;
    spec.score = said.score;
    for (const char* text : said.operands) spec.operands.push_back(instance::parse_operand(text));
    spec.grad = {"x"};
    check_differences(spec);
    spec.softcap = 2.0f;
    spec.mask = "b11k";
    spec.use_sink = true;
    check_differences(spec);
  }
}

TEST_CASE("gradients of operands of packed sequences are the derivatives of the outputs") {
  ProblemSpec spec = kSpec;
  spec.packed = true;
  spec.cu_seqlens_q = {0, 8, 23};
  spec.cu_seqlens_kv = {0, 20, 31};
  spec.score = "s * x[b, 1] + x[b, i % 3]";
  spec.operands = {instance::parse_operand("x=fp32:b,3")};
  spec.grad = {"x"};
  check_differences(spec);
}

TEST_CASE("an operand that is added for each pair has the gradient of a bias") {
  ProblemSpec said = kSpec, built_in = kSpec;
  said.score = "s + x[b, h, i, j]";
  said.operands = {instance::parse_operand("x=bf16:b,h,q,k")};
  said.grad = {"x"};
  built_in.bias = "bhqk";
  built_in.want_dbias = true;
  const HostProblem first(said, 1);
  HostProblem second(built_in, 1);
  const Tensor operand = first.find(BufferRole::kOperand)->tensor();
  const Tensor bias = second.find(BufferRole::kBias)->tensor();
  const std::int64_t count = 2 * 4 * 23 * 31;
  for (std::int64_t n = 0; n < count; ++n) {
    tensor::store(bias.data, bias.dtype, n, tensor::load(operand.data, operand.dtype, n));
  }
  for (const Arithmetic arithmetic : {Arithmetic::kExact, Arithmetic::kRounded}) {
    const auto one = backward(first.backward_args(), arithmetic, Planes::every(), 1);
    const auto other = backward(second.backward_args(), arithmetic, Planes::every(), 1);
    for (std::size_t n = 0; n < static_cast<std::size_t>(count); ++n) {
      REQUIRE(one.operands[0].values[n] ==
              doctest::Approx(other.dbias.values[n]).epsilon(1e-3).scale(1e-3));
    }
  }
}

TEST_CASE("an operand that no score reads has a gradient of zeros") {
  ProblemSpec spec = kSpec;
  spec.keep = "x[j] > -0.5";
  spec.operands = {instance::parse_operand("x=fp32:k")};
  spec.grad = {"x"};
  const HostProblem problem(spec, 1);
  const auto result = backward(problem.backward_args(), Arithmetic::kExact, Planes::every(), 1);
  for (const double value : result.operands[0].values) CHECK(value == 0);
}

}  // namespace
}  // namespace attnjit::reference::operand_gradient_test
