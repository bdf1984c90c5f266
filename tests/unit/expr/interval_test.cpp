// Ranges of expressions over boxes of points: how narrow they are, and tiles that they prove empty
// or full.
#include "expr/interval.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "expr/parse.hpp"
#include "expr/print.hpp"
#include "unit/expr/random_values.hpp"

using namespace attnjit;
using namespace attnjit::expr;

namespace expr_interval_test {

namespace {

constexpr std::int64_t kLowest = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kHighest = std::numeric_limits<std::int64_t>::max();

Box box_of(IntRange row, IntRange key) {
  Box box;
  box.indices.of.fill({0, 0});
  box.indices[Index::kRow] = row;
  box.indices[Index::kKey] = key;
  box.indices[Index::kNumQueries] = box.indices[Index::kNumKeys] = {1024, 1024};
  return box;
}

// The range of the int that stands before "== 0" in a text of indices.
IntRange ints(const char* text, IntRange row, IntRange key) {
  const Expr e = parse(Kind::kKeep, std::string(text) + " == 0", {});
  return range(part(e, e.top().args[0]), box_of(row, key)).ints;
}

FloatRange floats(const char* text, IntRange row) {
  return range(parse(Kind::kScore, text, {}), box_of(row, {0, 0})).floats;
}

Truth over(const char* text, IntRange row, IntRange key) {
  return truth(parse(Kind::kKeep, text, {}), box_of(row, key));
}

}  // namespace

TEST_CASE("ranges of int operations are as narrow as the values") {
  const std::vector<OperandDeclaration> none;
  const char* texts[] = {"i + j",     "i - j",   "i * j",  "i // j",         "i % j",  "i % 7",
                         "i // 7",    "i // -3", "i % -3", "i << j",         "i >> j", "min(i, j)",
                         "max(i, j)", "abs(i)",  "-i",     "clamp(i, j, 3)", "(i & 7)"};
  // Of these the bounds are those of the values but for remainders, which may be wider.
  test::RandomExpressions random(5);
  for (const char* text : texts) {
    const Expr e = parse(Kind::kKeep, std::string(text) + " == 0", none);
    Evaluator evaluate(part(e, e.top().args[0]));
    for (int n = 0; n < 60; ++n) {
      const std::int64_t a = random.between(-20, 20), c = random.between(-9, 9);
      const IntRange row{a, a + random.between(0, 12)}, key{c, c + random.between(0, 6)};
      IntRange seen{kHighest, kLowest};
      for (std::int64_t i = row.first; i <= row.last; ++i) {
        for (std::int64_t j = key.first; j <= key.last; ++j) {
          Environment point;
          point.indices[Index::kRow] = i;
          point.indices[Index::kKey] = j;
          const std::int64_t value = evaluate(point).integer;
          seen = {std::min(seen.first, value), std::max(seen.last, value)};
        }
      }
      const IntRange found = ints(text, row, key);
      INFO(text, " for i in ", row.first, " ", row.last, ", j in ", key.first, " ", key.last, ": ",
           found.first, " ", found.last, "; seen ", seen.first, " ", seen.last);
      REQUIRE(found.first <= seen.first);
      REQUIRE(found.last >= seen.last);
      const bool is_rough = std::string(text).find_first_of("%&") != std::string::npos;
      if (!is_rough) REQUIRE(found == seen);
    }
  }
}

TEST_CASE("remainders and bits are narrow where it matters") {
  CHECK(ints("i % 512", {512, 1023}, {}) == IntRange{0, 511});
  CHECK(ints("i % 512", {600, 650}, {}) == IntRange{88, 138});
  CHECK(ints("i % 512", {500, 520}, {}) == IntRange{0, 511});
  CHECK(ints("i % 512", {-3, -1}, {}) == IntRange{509, 511});
  CHECK(ints("i % -5", {1, 3}, {}) == IntRange{-4, -2});
  CHECK(ints("i % -5", {1, 30}, {}) == IntRange{-4, 0});
  CHECK(ints("i % j", {3, 4}, {5, 9}) == IntRange{3, 4});
  CHECK(ints("i % j", {3, 40}, {5, 9}) == IntRange{0, 8});
  CHECK(ints("i % j", {3, 4}, {0, 9}) == IntRange{0, 4});
  CHECK(ints("i % j", {-4, 40}, {-3, 9}) == IntRange{-4, 40});
  CHECK(ints("(i & 255)", {256, 300}, {}) == IntRange{0, 44});
  CHECK(ints("(i & 255)", {-1, 300}, {}) == IntRange{0, 255});
  CHECK(ints("(i & 6)", {-9, 300}, {}) == IntRange{0, 6});
  CHECK(ints("(i & j)", {0, 9}, {0, 300}) == IntRange{0, 9});
  CHECK(ints("(i & j)", {-9, 9}, {-3, 3}) == IntRange{-16, 15});
  CHECK(ints("(i | j)", {4, 9}, {2, 3}) == IntRange{4, 15});
  CHECK(ints("(i ^ j)", {4, 9}, {2, 3}) == IntRange{0, 15});
}

TEST_CASE("ints that may wrap may be any") {
  const IntRange big{(std::int64_t{1} << 62), (std::int64_t{1} << 62) + 1};
  CHECK(ints("i + j", big, big) == IntRange{});
  CHECK(ints("i * j", big, {0, 4}) == IntRange{});
  CHECK(ints("i << j", {1, 2}, {0, 99}) == IntRange{});
  CHECK(ints("i << j", {0, 0}, {0, 99}) == IntRange{0, 0});
  CHECK(ints("-i", {kLowest, 0}, {}) == IntRange{});
  CHECK(ints("abs(i)", {kLowest, 0}, {}) == IntRange{});
  CHECK(ints("i // j", {kLowest, 0}, {-1, 1}) == IntRange{});
  CHECK(ints("i // j", {kLowest, 0}, {-3, -2}) == IntRange{0, std::int64_t{1} << 62});
}

TEST_CASE("ranges of floats round outward and know of NaN") {
  const FloatRange twice = floats("i * 0.5", {2, 6});
  CHECK(twice.low < 1);
  CHECK(twice.low > 0.99999);
  CHECK(twice.high > 3);
  CHECK_FALSE(twice.may_be_nan);
  const FloatRange ints = floats("i", {2, 6});
  CHECK(ints.low == 2);
  CHECK(ints.high == 6);
  CHECK(floats("i", {2, (1 << 24) + 1}).high > (1 << 24) + 1);
  CHECK(floats("log(i)", {0, 6}).low == -INFINITY);
  CHECK_FALSE(floats("log(i)", {0, 6}).may_be_nan);
  CHECK(floats("log(i)", {-1, 6}).may_be_nan);
  CHECK(floats("sqrt(i)", {-1, 6}).may_be_nan);
  CHECK(floats("1 / i", {-1, 6}).may_be_nan == true);
  CHECK(floats("1 / i", {1, 4}).high < 1.001);
  CHECK(floats("exp(i * 100.0)", {0, 9}).high == INFINITY);
  CHECK(floats("exp(i * 100.0) * 0.0", {0, 9}).may_be_nan);
  CHECK(floats("exp(i * 100.0) - exp(i * 100.0)", {0, 9}).may_be_nan);
  CHECK(floats("exp(i * 100.0) / exp(i * 100.0)", {0, 9}).may_be_nan);
  CHECK(floats("-exp(i * 100.0) + exp(i * 100.0)", {0, 9}).may_be_nan);
  CHECK(floats("tanh(i) + sigmoid(i)", {-99, 99}).low >= -1.001);
}

TEST_CASE("truth of the usual masks") {
  CHECK(over("j <= i + off", {64, 127}, {0, 64}) == Truth::kAlways);
  CHECK(over("j <= i + off", {64, 127}, {0, 65}) == Truth::kUnknown);
  CHECK(over("j <= i + off", {64, 127}, {128, 191}) == Truth::kNever);
  CHECK(over("i // 512 == j // 512", {512, 600}, {600, 1023}) == Truth::kAlways);
  CHECK(over("i // 512 == j // 512", {512, 600}, {1024, 1100}) == Truth::kNever);
  CHECK(over("(i - j) % 4 == 0", {0, 0}, {1, 3}) == Truth::kNever);
  CHECK(over("abs(float(i)) >= 1.0", {-5, -1}, {}) == Truth::kAlways);
  CHECK(over("i > j && i < 0", {0, 9}, {0, 9}) == Truth::kNever);
  CHECK(over("i > j || i >= 0", {0, 9}, {0, 9}) == Truth::kAlways);
  CHECK(over("sqrt(i) != sqrt(j)", {-9, -1}, {0, 9}) == Truth::kUnknown);
  CHECK(over("log(float(i)) < 1.0 / 0.0", {-9, -1}, {0, 9}) == Truth::kUnknown);
  CHECK(over("float(i) * 0.1 < 5.0", {0, 49}, {0, 0}) == Truth::kAlways);
  CHECK(over("float(i) * 0.1 < 5.0", {0, 50}, {0, 0}) == Truth::kUnknown);
}

TEST_CASE("elements that may be NaN or below 2^-126 are taken as such") {
  const std::vector<OperandDeclaration> operands = {{"x", Type::kFloat, 0}};
  const auto with = [&](const char* text, FloatRange elements) {
    const std::vector<OperandRanges> ranges = {
        {{}, [=](std::span<const IntRange>) { return Range::of(elements); }}};
    Box box = box_of({0, 0}, {0, 0});
    box.operands = ranges;
    return truth(parse(Kind::kKeep, text, operands), box);
  };
  const FloatRange one{1, 1, true};
  CHECK(with("x == 1.0", one) == Truth::kUnknown);
  CHECK(with("x != 1.0", one) == Truth::kUnknown);
  CHECK(with("x != 2.0", one) == Truth::kAlways);
  CHECK(with("x == 2.0", one) == Truth::kNever);
  CHECK(with("x < 2.0", one) == Truth::kUnknown);
  CHECK(with("x > 2.0", one) == Truth::kNever);
  CHECK(with("int(x) == 1", one) == Truth::kUnknown);
  CHECK(with("int(x) == 1", {1, 1, false}) == Truth::kAlways);
  CHECK(with("x > 0.0", {1e-39, 1e-39, false}) == Truth::kUnknown);
  CHECK(with("x > 0.0", {1e-37, 1e-37, false}) == Truth::kAlways);
  CHECK(with("1.0 / x > 0.0", {1e-39, 1, false}) == Truth::kUnknown);
}

TEST_CASE("a tile that is said to be empty or full is so") {
  // Documents of random lengths, with the ranges of a tile from their elements.
  const std::vector<OperandDeclaration> operands = {{"doc", Type::kInt, 1},
                                                    {"prefix", Type::kInt, 0}};
  const char* masks[] = {"doc[i] == doc[j]",
                         "doc[i] == doc[j] && j <= i",
                         "j <= i && i - j < 37",
                         "j <= i || j < prefix",
                         "i // 24 == j // 24",
                         "(i - j) % 3 == 0 && abs(i - j) < 40",
                         "i % 16 < 8 ? j <= i : doc[j] != 2",
                         "(i >> 4 & 1) == (j >> 4 & 1)",
                         "float(i - j) * 0.25 <= 3.5 && sqrt(float(j)) < 9.0"};
  constexpr int kLength = 128, kTile = 16;
  std::vector<std::int64_t> documents;
  for (int n = 0; n < kLength; ++n) documents.push_back(n < 20 ? 0 : n < 64 ? 1 : n < 80 ? 2 : 3);
  const auto reader_of = [&](const OperandDeclaration& operand) -> OperandReader {
    if (operand.rank == 0) return {{}, [](const Places&) { return Value::of(std::int64_t{33}); }};
    return {{kLength}, [&](const Places& place) {
              return Value::of(documents[static_cast<std::size_t>(place[0])]);
            }};
  };
  for (const char* text : masks) {
    const Expr e = parse(Kind::kKeep, text, operands);
    std::vector<OperandReader> readers;
    std::vector<OperandRanges> ranges;
    for (const OperandDeclaration& operand : e.operands()) readers.push_back(reader_of(operand));
    for (const OperandReader& reader : readers) {
      ranges.push_back({reader.shape, [&reader](std::span<const IntRange> indices) {
                          return test::RandomValues::range_of(reader, indices);
                        }});
    }
    Evaluator evaluate(e);
    int proven = 0;
    for (int row = 0; row < kLength; row += kTile) {
      for (int key = 0; key < kLength; key += kTile) {
        Box box = box_of({row, row + kTile - 1}, {key, key + kTile - 1});
        box.operands = ranges;
        int kept = 0;
        for (int n = 0; n < kTile * kTile; ++n) {
          Environment point;
          point.indices[Index::kRow] = row + n / kTile;
          point.indices[Index::kKey] = key + n % kTile;
          point.operands = readers;
          kept += evaluate(point).holds() ? 1 : 0;
        }
        const Truth said = truth(e, box);
        INFO(text, " at ", row, " ", key);
        if (said == Truth::kNever) CHECK(kept == 0);
        if (said == Truth::kAlways) CHECK(kept == kTile * kTile);
        if (said != Truth::kUnknown) ++proven;
      }
    }
    CHECK_MESSAGE(proven >= 8, text, " proves ", proven);
  }
}

}  // namespace expr_interval_test
