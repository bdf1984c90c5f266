#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "tensor/fill.hpp"
#include "tensor/half.hpp"
#include "tensor/random.hpp"

namespace attnjit::tensor {
namespace {

using Shape = std::array<std::int64_t, 4>;

TEST_CASE("normal values have the right moments and tails") {
  const Random random(7);
  constexpr int kCount = 200000;
  double sum = 0;
  double squares = 0;
  double fourth = 0;
  double neighbours = 0;
  double previous = 0;
  for (int i = 0; i < kCount; ++i) {
    const double x = random.normal(static_cast<std::uint64_t>(i));
    sum += x;
    squares += x * x;
    fourth += x * x * x * x;
    neighbours += x * previous;
    previous = x;
  }
  // Four standard errors each.
  CHECK(std::fabs(sum / kCount) < 4 / std::sqrt(kCount));
  CHECK(std::fabs(squares / kCount - 1) < 4 * std::sqrt(2.0 / kCount));
  CHECK(std::fabs(fourth / kCount - 3) < 4 * std::sqrt(96.0 / kCount));
  CHECK(std::fabs(neighbours / kCount) < 4 / std::sqrt(kCount));
}

TEST_CASE("the generator is a pure function, seeds and streams are independent") {
  CHECK(Random(1).bits(5) == Random(1).bits(5));
  std::set<std::uint64_t> seen;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    for (std::uint64_t index = 0; index < 30; ++index) {
      seen.insert(Random(seed).bits(index));
      seen.insert(Random(seed).stream(index).bits(0));
      seen.insert(Random(seed).stream(index).bits(1));
    }
  }
  CHECK(seen.size() == 30 * 30 * 3);
  // Values once written down: a change of the generator changes every test's data.
  CHECK(Random(0).bits(0) == 0x9ababb68568302b9u);
  double low = 1;
  double high = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    low = std::min(low, Random(3).uniform(i));
    high = std::max(high, Random(3).uniform(i));
    CHECK(Random(3).below(i, 7) < 7);
  }
  CHECK(low < 0.01);
  CHECK(high > 0.99);
}

TEST_CASE("a fill depends on logical places, not on layout or threads") {
  const Shape shape = {2, 3, 5, 7};
  std::vector<std::uint16_t> dense(2 * 3 * 5 * 7);
  std::vector<std::uint16_t> other(2 * 3 * 5 * 11);
  const Tensor first = Tensor::contiguous(dense.data(), DType::kFloat16, shape);
  const Tensor second{other.data(), DType::kFloat16, shape, {3 * 5 * 11, 11, 3 * 11, 1}};
  fill_normal(first, Random(5), 1, 2, 1);
  fill_normal(second, Random(5), 1, 2, 8);
  for (std::int64_t b = 0; b < 2; ++b) {
    for (std::int64_t h = 0; h < 3; ++h) {
      for (std::int64_t i = 0; i < 5; ++i) {
        for (std::int64_t d = 0; d < 7; ++d) {
          REQUIRE(dense[static_cast<std::size_t>(((b * 3 + h) * 5 + i) * 7 + d)] ==
                  other[static_cast<std::size_t>(b * 165 + h * 11 + i * 33 + d)]);
        }
      }
    }
  }
}

// A mask as one flat array of 0 and 1.
std::vector<std::uint8_t> make_mask(const Shape& shape, MaskKind kind, double density) {
  std::vector<std::uint8_t> memory(
      static_cast<std::size_t>(shape[0] * shape[1] * shape[2] * shape[3]), 9);
  fill_mask(Tensor::contiguous(memory.data(), DType::kBool, shape), kind, density, Random(11), 2);
  return memory;
}

double share(const std::vector<std::uint8_t>& mask) {
  double kept = 0;
  for (const std::uint8_t value : mask) kept += value;
  return kept / static_cast<double>(mask.size());
}

TEST_CASE("mask kinds drop what they say") {
  const Shape shape = {2, 3, 300, 520};
  const auto at = [&](const std::vector<std::uint8_t>& mask, int b, int h, int i, int j) {
    return mask[static_cast<std::size_t>(((b * 3 + h) * 300 + i) * 520 + j)];
  };
  CHECK(share(make_mask(shape, MaskKind::kRandom, 0.3)) == doctest::Approx(0.3).epsilon(0.02));
  CHECK(share(make_mask(shape, MaskKind::kAllTrue, 0)) == 1);
  CHECK(share(make_mask(shape, MaskKind::kAllFalse, 1)) == 0);

  const auto suffix = make_mask(shape, MaskKind::kSuffix, 0.5);
  const auto scattered = make_mask(shape, MaskKind::kScattered, 0.5);
  const auto blocks = make_mask(shape, MaskKind::kBlocks, 1.0);
  const auto dead_rows = make_mask(shape, MaskKind::kDeadRows, 1.0);
  const auto dead_head = make_mask(shape, MaskKind::kDeadHead, 1.0);
  const auto dead_batch = make_mask(shape, MaskKind::kDeadBatch, 1.0);
  int wrong = 0;
  int rises = 0;
  for (int b = 0; b < 2; ++b) {
    for (int h = 0; h < 3; ++h) {
      wrong += at(suffix, b, h, 0, 0) != 1;
      wrong += at(scattered, b, h, 0, 0) != 0;
      for (int i = 0; i < 300; ++i) {
        for (int j = 0; j < 520; ++j) {
          wrong += j > 0 && at(suffix, b, h, i, j) > at(suffix, b, h, i, j - 1);
          wrong += at(scattered, b, h, i, j) != at(scattered, b, h, 0, j);
          rises += j > 0 && at(scattered, b, h, i, j) > at(scattered, b, h, i, j - 1);
          wrong += at(blocks, b, h, i, j) != (j / 128 % 3 != 1);
          wrong += at(dead_rows, b, h, i, j) != (i % 5 != 2);
          wrong += at(dead_head, b, h, i, j) != (h != b);
          wrong += at(dead_batch, b, h, i, j) != (b == 0);
        }
      }
    }
  }
  CHECK(wrong == 0);
  CHECK(rises > 6 * 300);  // on again after off
}

TEST_CASE("a mask kind without its axis becomes random") {
  for (const MaskKind kind : {MaskKind::kDeadRows, MaskKind::kDeadHead, MaskKind::kDeadBatch}) {
    CHECK(share(make_mask({1, 1, 1, 4000}, kind, 0.5)) == doctest::Approx(0.5).epsilon(0.1));
  }
  CHECK(share(make_mask({4000, 1, 1, 1}, MaskKind::kSuffix, 0.5)) ==
        doctest::Approx(0.5).epsilon(0.1));
}

TEST_CASE("a top-bias mask keeps the largest biases of each row, the first ones of equals") {
  std::vector<float> values = {3,
                               1,
                               2,
                               5,  // keeps 3 and 5
                               7,
                               7,
                               7,
                               7,  // ties
                               -std::numeric_limits<float>::infinity(),
                               -1,
                               -2,
                               0};
  const Tensor bias = Tensor::contiguous(values.data(), DType::kFloat32, {1, 1, 3, 4});
  std::vector<std::uint8_t> keep(15, 9);
  const Tensor mask{keep.data(), DType::kBool, {1, 1, 3, 4}, {15, 15, 5, 1}};  // padded rows
  using Kept = std::vector<std::uint8_t>;
  fill_top_bias(mask, bias, 0.5, 2);
  CHECK(keep == Kept{1, 0, 0, 1, 9, 1, 1, 0, 0, 9, 0, 1, 0, 1, 9});
  fill_top_bias(mask, bias, 0, 1);
  CHECK(keep == Kept{0, 0, 0, 0, 9, 0, 0, 0, 0, 9, 0, 0, 0, 0, 9});
  fill_top_bias(mask, bias, 1, 1);
  CHECK(keep == Kept{1, 1, 1, 1, 9, 1, 1, 1, 1, 9, 1, 1, 1, 1, 9});
}

TEST_CASE("a band mask keeps the keys up to the diagonal from the bottom right") {
  CHECK(make_mask({1, 1, 4, 4}, MaskKind::kBand, 0.5) ==
        std::vector<std::uint8_t>{1, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1});
  CHECK(make_mask({1, 1, 2, 4}, MaskKind::kBand, 0.5) ==
        std::vector<std::uint8_t>{0, 1, 1, 0, 0, 0, 1, 1});
  CHECK(make_mask({1, 1, 2, 3}, MaskKind::kBand, 1) == std::vector<std::uint8_t>{1, 1, 0, 1, 1, 1});
}

TEST_CASE("bias kinds plant what they say, in each dtype") {
  const Shape shape = {1, 1, 50, 400};
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16, DType::kFloat32}) {
    std::vector<float> memory(50 * 400);
    const Tensor bias = Tensor::contiguous(memory.data(), dtype, shape);
    const auto count = [&](double value) {
      int found = 0;
      for (int i = 0; i < 50 * 400; ++i) found += load(memory.data(), dtype, i) == value;
      return found;
    };
    const double infinity = std::numeric_limits<double>::infinity();
    const double planted = 10 * 400 + 40 * 400 * 0.1;
    fill_bias(bias, BiasKind::kMinusInfinity, Random(1), 2);
    CHECK(count(-infinity) == doctest::Approx(planted).epsilon(0.05));
    fill_bias(bias, BiasKind::kLowest, Random(1), 2);
    CHECK(count(-infinity) == 0);
    CHECK(count(lowest_finite(dtype)) == doctest::Approx(planted).epsilon(0.05));
    fill_bias(bias, BiasKind::kHugeLogit, Random(1), 2);
    CHECK(count(round_to(dtype, 10000)) == 50);
    fill_bias(bias, BiasKind::kVeryNegative, Random(1), 2);
    CHECK(load(memory.data(), dtype, 123) < -290);
  }
}

TEST_CASE("names of kinds round-trip") {
  CHECK(parse_mask_kind("blocks") == MaskKind::kBlocks);
  CHECK(parse_mask_kind("all-false") == MaskKind::kAllFalse);
  CHECK_FALSE(parse_mask_kind("block").has_value());
  CHECK(parse_bias_kind("very-negative") == BiasKind::kVeryNegative);
  CHECK(parse_bias_kind("graded") == BiasKind::kGraded);
  CHECK_FALSE(parse_bias_kind("").has_value());
}

}  // namespace
}  // namespace attnjit::tensor
