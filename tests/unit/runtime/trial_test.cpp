// The tensors that tuning works on, and how it tells a wrong kernel.
#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "attnjit/error.hpp"
#include "runtime/tune/output_check.hpp"
#include "runtime/tune/synthetic_tensors.hpp"
#include "tensor/half.hpp"
#include "unit/backward_fixtures.hpp"
#include "unit/fake_device.hpp"

using namespace attnjit;
using attnjit::test::FakeDevice;
using runtime::outputs_agree;
using SyntheticTensors = runtime::BasicSyntheticTensors<launch::ForwardPass>;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

}  // namespace

TEST_CASE("tensors have the problem's strides, random values and full lengths") {
  const FakeDevice device;
  ForwardArgs args = test::forward_args();
  args.mask = test::mask(args, "b1qk");
  args.bias = test::bias(args, "1hqk");
  args.seqlens_kv = test::fake_address<std::int32_t>(6);
  args.lse = test::fake_address<float>(7);
  // Keys in reverse, and rows of v with a gap.
  args.k.strides[2] = -args.k.strides[2];
  for (int axis = 0; axis < 3; ++axis) args.v.strides[axis] *= 2;
  const problem::Problem problem = problem::make_problem(args);
  const SyntheticTensors tensors(*device, problem, 2, nullptr);
  const ForwardArgs& made = tensors.args();
  REQUIRE(tensors.outputs().size() == 1);
  CHECK(tensors.outputs()[0].bytes == 4u * 32 * 128 * 128 * 2);
  CHECK(tensors.outputs()[0].data == made.out.data);
  CHECK(tensors.outputs()[0].dtype == DType::kBFloat16);
  CHECK(made.seqlens_q == nullptr);
  REQUIRE(made.seqlens_kv != nullptr);
  for (int b = 0; b < 4; ++b) CHECK(made.seqlens_kv[b] == 192);
  REQUIRE(made.lse != nullptr);

  // Both ends of each tensor can be read, or the sanitizers speak up.
  double sum = 0, squares = 0;
  const auto* const k = static_cast<const std::uint16_t*>(made.k.data);
  const int count = 191 * 64;
  for (int i = 0; i < count; ++i) {
    const double value = tensor::from_bfloat16(k[i % 64 - i / 64 * 64]);
    sum += value;
    squares += value * value;
  }
  CHECK(std::abs(sum / count) < 0.05);
  CHECK(squares / count == doctest::Approx(1).epsilon(0.1));
  const auto* const v = static_cast<const std::uint16_t*>(made.v.data);
  CHECK(std::isfinite(tensor::from_bfloat16(v[(4 * 8 * 192 - 1) * 256 + 127])));

  const auto* const mask = static_cast<const std::uint8_t*>(made.mask->data);
  int kept = 0;
  for (int i = 0; i < 10000; ++i) kept += mask[i];
  CHECK(kept > 4800);
  CHECK(kept < 5200);
  CHECK(std::memcmp(made.q.data, made.v.data, 1024) != 0);
}

TEST_CASE("a tensor that no memory could hold is an error of memory") {
  const FakeDevice device;
  ForwardArgs args = test::forward_args();
  args.q.strides[0] = std::int64_t{1} << 61;
  const problem::Problem problem = problem::make_problem(args);
  CHECK_THROWS_WITH_AS(SyntheticTensors(*device, problem, 1, nullptr), doctest::Contains("2^46"),
                       Error);
}

TEST_CASE("a backward has its own tensors, those of its forward, and each gradient to write") {
  const FakeDevice device;
  BackwardArgs args = test::bias_args("1hqk");
  args.dbias->dtype = DType::kFloat32;
  args.dlse = test::fake_address<float>(9);
  const problem::BackwardProblem problem = problem::make_problem(args);
  const runtime::BasicSyntheticTensors<launch::BackwardPass> tensors(*device, problem, 2, nullptr);
  const BackwardArgs& made = tensors.args();
  const auto& outputs = tensors.outputs();
  REQUIRE(outputs.size() == 4);
  CHECK(outputs[0].data == made.dq.data);
  CHECK(outputs[1].data == made.dk.data);
  CHECK(outputs[2].data == made.dv.data);
  CHECK(outputs[3].data == made.dbias->data);
  const problem::Problem& p = problem.forward;
  const auto elements = [](int heads, int rows, int columns) {
    return static_cast<std::size_t>(heads) * static_cast<std::size_t>(rows) *
           static_cast<std::size_t>(columns);
  };
  CHECK(outputs[0].bytes == 2 * elements(p.batch * p.num_heads_q, p.seqlen_q, p.head_dim));
  CHECK(outputs[1].bytes == 2 * elements(p.batch * p.num_heads_kv, p.seqlen_kv, p.head_dim));
  CHECK(outputs[3].bytes == 4 * elements(p.num_heads_q, p.seqlen_q, p.seqlen_kv));
  CHECK(outputs[3].dtype == DType::kFloat32);
  CHECK(made.forward.out.data != nullptr);
  CHECK(made.forward.lse != nullptr);
  REQUIRE(made.dlse != nullptr);
  CHECK(std::isfinite(made.dlse[0]));
  CHECK(made.dlse[0] != made.dlse[1]);
  CHECK(std::memcmp(made.dout.data, made.forward.q.data, 1024) != 0);
}

TEST_CASE("rounding is no difference, and a wrong value is") {
  const std::vector<float> good = {1, -0.5, 0.25, 2};
  const auto agree = [&](const std::vector<float>& candidate) {
    return outputs_agree(DType::kFloat16, good, candidate);
  };
  CHECK(agree(good));
  CHECK(agree({1.001f, -0.5f, 0.2502f, 1.999f}));
  CHECK_FALSE(agree({1.03f, -0.5f, 0.25f, 2}));
  CHECK_FALSE(agree({1, 0, 0.25f, 2}));
  CHECK_FALSE(agree({1, -0.5f, 0.25f, std::numeric_limits<float>::infinity()}));
  CHECK_FALSE(agree({}));
  // Outputs of bf16 may be off by more.
  CHECK(outputs_agree(DType::kBFloat16, good, std::vector<float>{1.03f, -0.5f, 0.25f, 2}));
}

TEST_CASE("values are judged beside their neighbours, for some rows are much larger than most") {
  std::vector<float> expected(64 * 1000, 0.01f);
  for (int d = 0; d < 64; ++d) expected[d] = d % 2 == 0 ? 1 : 0;
  std::vector<float> candidate = expected;
  candidate[1] = 0.03f;  // a roundoff of bf16 or two in a row of such size
  CHECK(outputs_agree(DType::kBFloat16, expected, candidate));
  candidate[1] = 0.1f;
  CHECK_FALSE(outputs_agree(DType::kBFloat16, expected, candidate));
  candidate[1] = 0;
  candidate[64] = 0.03f;  // not where all are small
  CHECK_FALSE(outputs_agree(DType::kBFloat16, expected, candidate));
}

TEST_CASE("what both left unwritten is equal, what one left is not") {
  std::vector<float> expected = {1, kNan, 0.25f, 2}, candidate = expected;  // a gap between rows
  CHECK(outputs_agree(DType::kFloat16, expected, candidate));
  candidate[2] = kNan;
  CHECK_FALSE(outputs_agree(DType::kFloat16, expected, candidate));
  CHECK_FALSE(outputs_agree(DType::kBFloat16, candidate, expected));
}

TEST_CASE("a sample reaches from the first element to the last, in each dtype") {
  const FakeDevice device;
  const std::size_t count = 10'000'001;
  std::vector<std::uint16_t> memory(count);
  memory.front() = tensor::to_bfloat16(1);
  memory.back() = tensor::to_bfloat16(2);
  const auto sample =
      runtime::sample_output(*device, {memory.data(), count * 2, DType::kBFloat16}, nullptr);
  CHECK(sample.size() == 64u * 32 * 1024);
  CHECK(sample.front() == 1);
  CHECK(sample.back() == 2);
  std::vector<float> floats(1000, 0.5f);
  floats.back() = 3;
  CHECK(runtime::sample_output(*device, {floats.data(), 4000, DType::kFloat32}, nullptr) == floats);
  const std::vector<std::uint16_t> half = {tensor::to_float16(0.25)};
  CHECK(runtime::sample_output(*device,
                               {const_cast<std::uint16_t*>(half.data()), 2, DType::kFloat16},
                               nullptr) == std::vector<float>{0.25f});
}
