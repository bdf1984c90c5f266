// Derivatives by s and by reads of operands: their rules, and PyTorch's at kinks.
#include "expr/derivative.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "attnjit/error.hpp"
#include "expr/parse.hpp"
#include "expr/print.hpp"

using namespace attnjit;
using namespace attnjit::expr;

namespace expr_derivative_test {

namespace {

const std::vector<OperandDeclaration> kOperands = {{"x", Type::kFloat, 0},
                                                   {"y", Type::kFloat, 0},
                                                   {"z", Type::kFloat, 0},
                                                   {"t", Type::kFloat, 2},
                                                   {"n", Type::kInt, 0}};

Expr score(const char* text) { return parse(Kind::kScore, text, kOperands); }

// The value of `e` with s, x, y and z.
double value(const Expr& e, double s, double x = 0, double y = 0, double z = 0) {
  std::vector<OperandReader> readers;
  for (const OperandDeclaration& operand : e.operands()) {
    const double number = operand.name == "x" ? x : operand.name == "y" ? y : z;
    readers.push_back({{1, 1}, [number](const Places&) { return Value::of(number); }});
  }
  Environment environment;
  environment.indices.of = {0, 1, 0, 3, 4, 0, 8, 8};
  environment.score = s;
  environment.operands = readers;
  return evaluate(e, environment).number;
}

double by_score(const char* text, double s, double x = 0, double y = 0, double z = 0) {
  return value(derivative_by_score(score(text)), s, x, y, z);
}

// The derivative by operand `name`, which the text reads once.
double by(const char* name, const char* text, double x, double y = 0, double z = 0) {
  for (const ReadSite& site : read_sites(score(text))) {
    if (site.operand == name) return value(site.factor, 0, x, y, z);
  }
  return 0;
}

std::string text_by_score(const char* text) { return print(derivative_by_score(score(text))); }

}  // namespace

TEST_CASE("each function has its derivative") {
  for (const double s : {0.3, 1.7}) {
    CHECK(by_score("exp(s)", s) == doctest::Approx(std::exp(s)));
    CHECK(by_score("log(s)", s) == doctest::Approx(1 / s));
    CHECK(by_score("tanh(s)", s) == doctest::Approx(1 - std::tanh(s) * std::tanh(s)));
    CHECK(by_score("sigmoid(s)", s) ==
          doctest::Approx(std::exp(-s) / std::pow(1 + std::exp(-s), 2)));
    CHECK(by_score("sqrt(s)", s) == doctest::Approx(0.5 / std::sqrt(s)));
    CHECK(by_score("s * s * s", s) == doctest::Approx(3 * s * s));
    CHECK(by_score("2.0 / s", s) == doctest::Approx(-2 / (s * s)));
    CHECK(by_score("s / (1.0 + s)", s) == doctest::Approx(1 / ((1 + s) * (1 + s))));
    CHECK(by_score("x - s * y", s, 1, 4) == -4);
    CHECK(by_score("-s + floor(s) + float(int(s)) + x", s) == -1);
  }
}

TEST_CASE("derivatives are as simple as their rules") {
  CHECK(text_by_score("s") == "1.0");
  CHECK(text_by_score("x + t[h, j - i]") == "0.0");
  CHECK(text_by_score("s + t[h, j - i]") == "1.0");
  CHECK(text_by_score("s * x") == "x");
  CHECK(text_by_score("i < j ? s : -inf") == "i < j ? 1.0 : 0.0");
  CHECK(text_by_score("50.0 * tanh(s / 50.0)") ==
        "1.0 / 50.0 * (1.0 - tanh(s / 50.0) * tanh(s / 50.0)) * 50.0");
  const auto sites = read_sites(score("s * t[h, i] + t[h, j] * x"));
  REQUIRE(sites.size() == 3);
  CHECK(print(sites[0].read) == "t[h, i]");
  CHECK(print(sites[0].factor) == "s");
  CHECK(print(sites[1].read) == "t[h, j]");
  CHECK(print(sites[1].factor) == "x");
  CHECK(sites[2].operand == "x");
  CHECK(print(sites[2].factor) == "t[h, j]");
  CHECK(read_sites(score("s + float(n) + (x < 1.0 ? 1.0 : t[int(y), 0])")).size() == 1);
}

// The values of torch 2.x: derivatives.yaml has maximum and minimum (half each of equal values),
// abs (sgn), clamp (clamp_backward: 1 at its bounds; clamp_backward_min_max: of bounds that are
// tensors).
TEST_CASE("kinks have PyTorch's values") {
  CHECK(by_score("abs(s)", 0.0) == 0);
  CHECK(by_score("abs(s)", -0.0) == 0);
  CHECK(by_score("abs(s)", -2) == -1);
  CHECK(by_score("max(s, x)", 1, 1) == 0.5);
  CHECK(by_score("min(s, x)", 1, 1) == 0.5);
  CHECK(by_score("max(s, x)", 2, 1) == 1);
  CHECK(by_score("max(s, x)", 0, 1) == 0);
  CHECK(by_score("min(s, x)", 0, 1) == 1);
  CHECK(by("x", "max(x, y)", 1, 1) == 0.5);
  CHECK(by("y", "max(x, y)", 1, 1) == 0.5);
  CHECK(by("y", "min(x, y)", 1, 2) == 0);
  CHECK(by_score("max(s, s)", 1) == 1);
  for (const double s : {-1.0, 0.0, 0.5, 2.0, 3.0}) {
    CHECK(by_score("clamp(s, 0.0, 2.0)", s) == (s >= 0 && s <= 2 ? 1 : 0));
  }
  CHECK(by("y", "clamp(x, y, z)", 0, 1, 2) == 1);
  CHECK(by("y", "clamp(x, y, z)", 1, 1, 2) == 0);
  CHECK(by("z", "clamp(x, y, z)", 3, 1, 2) == 1);
  CHECK(by("z", "clamp(x, y, z)", 2, 1, 2) == 0);
  CHECK(by("z", "clamp(x, y, z)", 1.5, 2, 1) == 1);  // the upper bound lies below the lower one
  CHECK(by("z", "clamp(x, y, z)", 0.5, 2, 1) == 1);
  CHECK(by("y", "clamp(x, y, z)", 0.5, 2, 1) == 0);
  CHECK(by("y", "clamp(x, y, z)", 1.5, 2, 1) == 0);
  CHECK(by("x", "clamp(x, y, z)", 1.5, 2, 1) == 0);
  CHECK(by_score("floor(s)", 1) == 0);
  CHECK(by_score("s < 1.0 ? s : 2.0 * s", 1) == 2);
  CHECK(by_score("s <= 1.0 ? s : 2.0 * s", 1) == 1);
  CHECK(by_score("sqrt(s)", 0) == INFINITY);
}

TEST_CASE("the side that is not taken adds nothing, whatever it is") {
  CHECK(by_score("s > 0.0 ? log(s) : s", 0) == 1);
  CHECK(by_score("log(s > 0.0 ? s : 0.0)", 0) == 0);
  CHECK(by_score("sqrt(clamp(s, 0.0, 5.0))", -1) == 0);
  CHECK(by_score("log(max(s, 0.0) + x)", -1, 0) == 0);
  CHECK(by_score("1.0 / -(s > 0.0 ? s : 0.0)", 0) == 0);
  CHECK(by_score("exp(s < 0.0 ? s : 0.0) * (s < 0.0 ? 1.0 : inf)", 1) == 0);
  CHECK(by_score("s > 0.0 ? sqrt(s) * log(s) / s : 0.0", 0) == 0);
  CHECK(by("x", "x != 0.0 ? 1.0 / x : 0.0", 0) == 0);
  CHECK(by_score("max(s, 0.0) * inf + max(s, 0.0) / 0.0", -1) == 0);
  CHECK(by_score("sqrt(max(max(s, 0.0), 0.0))", -1) == 0);
  CHECK(by_score("log(2.0 * max(s, 0.0) / 3.0 - 0.0)", -1) == 0);
}

TEST_CASE("a derivative is not much larger than what it is of") {
  for (const char* step :
       {"max(x * {}, y)", "abs(y - {})", "clamp({} / x, y, z)", "sqrt(min({}, x))",
        "({} < y ? {} : x)", "max({} * x + y, z) * x", "tanh(min(abs({}), y)) / x"}) {
    std::string text = "s";
    Expr e = score("s"), last = e;
    for (int n = 0; n < 60; ++n) {
      std::string next = step;
      for (std::size_t place = 0; (place = next.find("{}", place)) != next.npos;
           place += text.size()) {
        next.replace(place, 2, text);
      }
      text = next;
      try {
        e = score(text.c_str());
      } catch (const Error&) {  // too large
        break;
      }
      last = e;
    }
    INFO(step);
    CHECK(last.nodes().size() > 15);
    CHECK(derivative_by_score(last).nodes().size() < 40 * last.nodes().size());
  }
}

}  // namespace expr_derivative_test
