// The tensors that tuning works on, and how it tells a wrong kernel.
#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <vector>

#include "attnjit/error.hpp"
#include "fake_device.hpp"
#include "forward_fixtures.hpp"
#include "reference/half.hpp"
#include "runtime/output_check.hpp"
#include "runtime/synthetic_tensors.hpp"

using namespace attnjit;
using attnjit::test::FakeDevice;
using runtime::outputs_agree;
using runtime::SyntheticTensors;

namespace {

std::vector<std::uint16_t> halves(const std::vector<double>& values) {
  std::vector<std::uint16_t> bits;
  for (const double value : values) bits.push_back(reference::to_float16(value));
  return bits;
}

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
  CHECK(tensors.out_bytes() == 4u * 32 * 128 * 128 * 2);
  CHECK(made.out.data == tensors.out_memory());
  CHECK(made.seqlens_q == nullptr);
  REQUIRE(made.seqlens_kv != nullptr);
  for (int b = 0; b < 4; ++b) CHECK(made.seqlens_kv[b] == 192);
  REQUIRE(made.lse != nullptr);

  // Both ends of each tensor can be read, or the sanitizers speak up.
  double sum = 0, squares = 0;
  const auto* const k = static_cast<const std::uint16_t*>(made.k.data);
  const int count = 191 * 64;
  for (int i = 0; i < count; ++i) {
    const double value = reference::from_bfloat16(k[i % 64 - i / 64 * 64]);
    sum += value;
    squares += value * value;
  }
  CHECK(std::abs(sum / count) < 0.05);
  CHECK(squares / count == doctest::Approx(1).epsilon(0.1));
  const auto* const v = static_cast<const std::uint16_t*>(made.v.data);
  CHECK(std::isfinite(reference::from_bfloat16(v[(4 * 8 * 192 - 1) * 256 + 127])));

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

TEST_CASE("rounding is no difference, and a wrong value is") {
  const std::vector<double> good = {1, -0.5, 0.25, 2};
  const auto expected = halves(good);
  CHECK(outputs_agree(DType::kFloat16, expected, expected));
  CHECK(outputs_agree(DType::kFloat16, expected, halves({1.001, -0.5, 0.2502, 1.999})));
  CHECK_FALSE(outputs_agree(DType::kFloat16, expected, halves({1.1, -0.5, 0.25, 2})));
  CHECK_FALSE(outputs_agree(DType::kFloat16, expected, halves({1, 0, 0.25, 2})));
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK_FALSE(outputs_agree(DType::kFloat16, expected, halves({1, -0.5, 0.25, infinity})));
  CHECK_FALSE(outputs_agree(DType::kFloat16, expected, {}));
}

TEST_CASE("what both left unwritten is equal, what one left is not") {
  std::vector<std::uint16_t> expected = halves({1, -0.5, 0.25, 2}), candidate = expected;
  expected[1] = candidate[1] = 0xffff;  // a gap between rows
  CHECK(outputs_agree(DType::kFloat16, expected, candidate));
  candidate[2] = 0xffff;
  CHECK_FALSE(outputs_agree(DType::kFloat16, expected, candidate));
  CHECK_FALSE(outputs_agree(DType::kBFloat16, candidate, expected));
}

TEST_CASE("a sample reaches from the first element to the last") {
  const FakeDevice device;
  const std::size_t count = 10'000'000;
  std::vector<std::uint16_t> memory(count);
  memory.front() = 1;
  memory.back() = 2;
  const auto sample = runtime::sample_output(*device, memory.data(), count * 2, nullptr);
  CHECK(sample.size() == 64u * 32 * 1024);
  CHECK(sample.front() == 1);
  CHECK(sample.back() == 2);
  memory.resize(1000);
  memory.back() = 3;
  const auto all = runtime::sample_output(*device, memory.data(), 2000, nullptr);
  CHECK(all == memory);
}
