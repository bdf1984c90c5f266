// Derivatives by s and by reads of operands, beside differences and PyTorch's rules at kinks.
#include "expr/derivative.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "expr/parse.hpp"
#include "expr/print.hpp"
#include "unit/expr/random_expression.hpp"

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

// `values` with one operand moved by `step` wherever `read` stands.
struct Moved {
  std::vector<OperandReader> readers;
  Moved(const Expr& e, const test::RandomValues& values, const std::string& name, const Places& at,
        double step)
      : readers(values.readers()) {
    for (std::size_t n = 0; n < readers.size(); ++n) {
      if (e.operands()[n].name != name) continue;
      readers[n].read = [read = readers[n].read, at, step](const Places& place) {
        Value element = read(place);
        if (place == at) element.number += step;
        return element;
      };
    }
  }
};

}  // namespace

TEST_CASE("derivatives by s are those of differences at smooth points") {
  test::RandomExpressions random(21, {.depth = 5, .is_smooth = true});
  int compared = 0;
  for (int n = 0; n < 1500; ++n) {
    const Expr e = random.score();
    const Expr d = derivative_by_score(e);
    const test::RandomValues values(e, static_cast<std::uint64_t>(n), false);
    Environment point = test::random_point(random, values);
    point.score /= 4;
    const auto readers = test::readers_of(d, e, values.readers());
    Environment of_d = point;
    of_d.operands = readers;
    const double slope = evaluate(d, of_d).number, middle = evaluate(e, point).number;
    constexpr double kStep = 0x1p-17;
    const double center = point.score;
    point.score = center + kStep;
    const double above = evaluate(e, point).number;
    point.score = center - kStep;
    const double below = evaluate(e, point).number;
    // The error of the difference: of rounding, and of the third derivative, by twice the step.
    point.score = center + 2 * kStep;
    const double twice_above = evaluate(e, point).number;
    point.score = center - 2 * kStep;
    const double twice = (twice_above - evaluate(e, point).number) / (4 * kStep);
    const double difference = (above - below) / (2 * kStep);
    const double bound =
        1e-8 * (1 + std::fabs(slope) + std::fabs(middle)) + 4 * std::fabs(twice - difference);
    if (!std::isfinite(twice) || bound > 1e-2 * (1 + std::fabs(slope))) continue;
    INFO(print(e), "\nby s: ", print(d));
    REQUIRE(std::fabs(slope - difference) <= bound);
    if (slope != 0) ++compared;
  }
  CHECK(compared > 400);
}

TEST_CASE("factors of reads add up to the derivative by an element") {
  test::RandomExpressions random(22, {.depth = 5, .is_smooth = true});
  int compared = 0;
  for (int n = 0; n < 1500; ++n) {
    const Expr e = random.score();
    const test::RandomValues values(e, static_cast<std::uint64_t>(n), false);
    Environment point = test::random_point(random, values);
    const std::vector<ReadSite> sites = read_sites(e);
    if (sites.empty()) continue;
    // The element of the first site, and the sum of the factors of all sites that read it.
    const auto readers_of = [&](const Expr& other) {
      return test::readers_of(other, e, values.readers());
    };
    const auto element_of = [&](const ReadSite& site) {
      Places place{};
      std::vector<OperandReader> readers = readers_of(site.read);
      readers[0].read = [&](const Places& p) {
        place = p;
        return Value::of(0.0);
      };
      Environment own = point;
      own.operands = readers;
      evaluate(site.read, own);
      return place;
    };
    const Places element = element_of(sites[0]);
    double slope = 0;
    for (const ReadSite& site : sites) {
      if (site.operand != sites[0].operand || element_of(site) != element) continue;
      const std::vector<OperandReader> readers = readers_of(site.factor);
      Environment own = point;
      own.operands = readers;
      slope += evaluate(site.factor, own).number;
    }
    const auto at = [&](double step) {
      const Moved moved(e, values, sites[0].operand, element, step);
      Environment own = point;
      own.operands = moved.readers;
      return evaluate(e, own).number;
    };
    constexpr double kStep = 0x1p-17;
    const double difference = (at(kStep) - at(-kStep)) / (2 * kStep);
    const double twice = (at(2 * kStep) - at(-2 * kStep)) / (4 * kStep);
    const double bound =
        1e-8 * (1 + std::fabs(slope) + std::fabs(at(0))) + 4 * std::fabs(twice - difference);
    if (!std::isfinite(twice) || bound > 1e-2 * (1 + std::fabs(slope))) continue;
    INFO(print(e), "\nby ", print(sites[0].read), ": ", print(sites[0].factor));
    REQUIRE(std::fabs(slope - difference) <= bound);
    if (slope != 0) ++compared;
  }
  CHECK(compared > 400);
}

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

// What torch 2.x gives: derivatives.yaml has maximum and minimum (half each of equal values), abs
// (sgn), clamp (clamp_backward: 1 at its bounds; clamp_backward_min_max: of bounds that are
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
}

}  // namespace expr_derivative_test
