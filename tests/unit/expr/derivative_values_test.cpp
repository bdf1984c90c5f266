// Derivatives of random smooth scores beside central differences.
#include <doctest/doctest.h>

#include <cmath>

#include "expr/derivative.hpp"
#include "expr/print.hpp"
#include "unit/expr/random_values.hpp"

using namespace attnjit;
using namespace attnjit::expr;

namespace expr_derivative_values_test {

namespace {

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

}  // namespace expr_derivative_values_test
