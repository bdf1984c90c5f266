// Values of operations: docs/reference/expressions.md.
#include "expr/evaluate.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "expr/parse.hpp"

using namespace attnjit;
using namespace attnjit::expr;

namespace expr_evaluate_test {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::int64_t kLowest = std::numeric_limits<std::int64_t>::min();

// Operands n and m are ints, x and y floats that the test sets; v[4] is 10, 11, 12, 13.
struct Point {
  std::int64_t n = 0, m = 0;
  double x = 0, y = 0;
};

Environment environment_of(const std::vector<OperandReader>& readers) {
  Environment environment;
  environment.indices.of = {1, 6, 3, 20, 30, 5, 100, 200};
  environment.score = 0.25;
  environment.operands = readers;
  return environment;
}

const std::vector<OperandDeclaration> kOperands = {{"n", Type::kInt, 0},
                                                   {"m", Type::kInt, 0},
                                                   {"x", Type::kFloat, 0},
                                                   {"y", Type::kFloat, 0},
                                                   {"v", Type::kInt, 1}};

Value value(Kind kind, const char* text, const Point& point) {
  const Expr e = parse(kind, text, kOperands);
  std::vector<OperandReader> readers;
  for (const OperandDeclaration& operand : e.operands()) {
    readers.push_back({{4}, [name = operand.name, &point](const Places& place) {
                         if (name == "n") return Value::of(point.n);
                         if (name == "m") return Value::of(point.m);
                         if (name == "v") return Value::of(10 + place[0]);
                         return Value::of(name == "x" ? point.x : point.y);
                       }});
  }
  return evaluate(e, environment_of(readers));
}

bool holds(const char* text, const Point& point = {}) {
  return value(Kind::kKeep, text, point).holds();
}
double number(const char* text, const Point& point = {}) {
  return value(Kind::kScore, text, point).number;
}

}  // namespace

TEST_CASE("indices and s are those of the environment") {
  CHECK(holds(
      "b == 1 && h == 6 && g == 3 && i == 20 && j == 30 && off == 5 && Lq == 100 && Lk == 200"));
  CHECK(number("s") == 0.25);
}

TEST_CASE("ints wrap at 64 bits") {
  const Point lowest{.n = kLowest, .m = -1};
  CHECK(holds("n - 1 == 9223372036854775807", lowest));
  CHECK(holds("n + n == 0", lowest));
  CHECK(holds("-n == n && abs(n) == n", lowest));
  CHECK(holds("n * m == n && n // m == n && n % m == 0", lowest));
  CHECK(holds("4294967296 * 4294967296 == 0"));
}

TEST_CASE("// and % round down, and have values by 0") {
  CHECK(holds("7 // 2 == 3 && 7 % 2 == 1"));
  CHECK(holds("-7 // 2 == -4 && -7 % 2 == 1"));
  CHECK(holds("7 // -2 == -4 && 7 % -2 == -1"));
  CHECK(holds("-7 // -2 == 3 && -7 % -2 == -1"));
  CHECK(holds("7 // n == 0 && 7 % n == 7 && -7 % n == -7", {.n = 0}));
  for (std::int64_t n = -9; n <= 9; ++n) {
    for (std::int64_t m = -4; m <= 4; ++m)
      CHECK(holds("n == n // m * m + n % m", {.n = n, .m = m}));
  }
}

TEST_CASE("shifts clamp their number of bits, and >> keeps the sign") {
  CHECK(holds("1 << 4 == 16 && -16 >> 2 == -4 && -1 >> 99 == -1 && 5 >> 99 == 0"));
  CHECK(holds("5 << -1 == 5 && 5 >> -7 == 5"));
  CHECK(holds("1 << 63 == n && 1 << 64 == n && 3 << 63 == n && 2 << 63 == 0", {.n = kLowest}));
  CHECK(holds("(12 & 10) == 8 && (12 | 10) == 14 && (12 ^ 10) == 6 && (-1 & 255) == 255"));
}

TEST_CASE("/ is of floats, and conversions cut off and saturate") {
  CHECK(number("7 / 2") == 3.5);
  CHECK(number("i / n") == kInfinity);
  CHECK(std::isnan(number("n / n")));
  CHECK(holds("int(x) == 2 && int(-x) == -2", {.x = 2.75}));
  CHECK(holds("int(x) == 2147483647 && int(-x) == -2147483648", {.x = 1e20}));
  CHECK(holds("int(x) == 2147483647 && int(y) == 0", {.x = kInfinity, .y = std::nan("")}));
  CHECK(holds("int(i < j) == 1 && float(i > j) == 0.0"));
  CHECK(holds("int(x) == 2147483647", {.x = 2147483647.5}));
}

TEST_CASE("literals are fp32") {
  CHECK(number("0.1") == static_cast<double>(0.1f));
  CHECK(holds("x <= 0.1", {.x = static_cast<double>(0.1f)}));
}

TEST_CASE("NaN goes through min, max and clamp, and -0.0 lies below 0.0") {
  const Point nan{.x = std::nan(""), .y = 1};
  for (const char* text :
       {"min(x, y)", "min(y, x)", "max(x, y)", "max(y, x)", "clamp(x, 0.0, y)", "clamp(y, x, 2.0)",
        "clamp(y, 0.0, x)", "abs(x)", "floor(x)", "sqrt(-y)", "log(-y)"}) {
    INFO(text);
    CHECK(std::isnan(number(text, nan)));
  }
  CHECK_FALSE(holds("x == x || x < y || x >= y", nan));
  CHECK(holds("x != x", nan));
  const Point zeros{.x = -0.0, .y = 0.0};
  CHECK(std::signbit(number("min(x, y)", zeros)));
  CHECK(std::signbit(number("min(y, x)", zeros)));
  CHECK_FALSE(std::signbit(number("max(x, y)", zeros)));
  CHECK(holds("x == y", zeros));
  CHECK(holds("clamp(5, 7, 3) == 3 && clamp(5, 1, 3) == 3 && clamp(5, 6, 9) == 6"));
}

TEST_CASE("functions are the usual ones") {
  const Point at{.x = 0.75};
  CHECK(number("exp(x)", at) == std::exp(0.75));
  CHECK(number("log(x)", at) == std::log(0.75));
  CHECK(number("tanh(x)", at) == std::tanh(0.75));
  CHECK(number("sigmoid(x)", at) == doctest::Approx(1 / (1 + std::exp(-0.75))));
  CHECK(number("sqrt(x)", at) == std::sqrt(0.75));
  CHECK(number("floor(-x)", at) == -1);
  CHECK(number("log(0.0)") == -kInfinity);
  CHECK(number("50.0 * tanh(s / 50.0)") == 50 * std::tanh(0.25 / 50));
}

TEST_CASE("an index outside of its axis reads the element at the nearest end") {
  CHECK(holds("v[0] == 10 && v[3] == 13 && v[4] == 13 && v[-1] == 10"));
  CHECK(holds("v[n] == 10 && v[m] == 13",
              {.n = kLowest, .m = std::numeric_limits<std::int64_t>::max()}));
}

TEST_CASE("an operand without elements is 0") {
  const Expr e = parse(Kind::kKeep, "v[i] == 0", kOperands);
  const std::vector<OperandReader> readers = {{{0}, [](const Places&) -> Value { throw 1; }}};
  CHECK(evaluate(e, environment_of(readers)).holds());
}

TEST_CASE("only the side that counts is computed") {
  int reads = 0;
  const std::vector<OperandReader> readers = {{{4}, [&](const Places&) {
                                                 ++reads;
                                                 return Value::of(std::int64_t{1});
                                               }}};
  const auto reads_of = [&](const char* text) {
    reads = 0;
    evaluate(parse(Kind::kKeep, text, kOperands), environment_of(readers));
    return reads;
  };
  CHECK(reads_of("i < j || v[i] == 1") == 0);
  CHECK(reads_of("i > j && v[i] == 1") == 0);
  CHECK(reads_of("i > j ? v[i] == 1 : true") == 0);
  CHECK(reads_of("i > j ? true : v[i] == 1") == 1);
  CHECK(reads_of("v[i] == 1 && v[i] + v[i] == 2") == 1);
}

}  // namespace expr_evaluate_test
