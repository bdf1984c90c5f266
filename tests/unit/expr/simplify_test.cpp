// Simplified expressions: what becomes simpler, and that no value changes.
#include "expr/simplify.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "expr/parse.hpp"
#include "expr/print.hpp"
#include "unit/expr/random_values.hpp"

using namespace attnjit;
using namespace attnjit::expr;

namespace expr_simplify_test {

namespace {

std::string simple(Kind kind, const char* text) {
  return print(simplify(parse(kind, text, test::random_operands())));
}
std::string score(const char* text) { return simple(Kind::kScore, text); }
std::string keep(const char* text) { return simple(Kind::kKeep, text); }

void check_values(std::uint64_t seed, int expressions, int points) {
  test::RandomExpressions random(seed, {.largest = 2000});
  for (int n = 0; n < expressions; ++n) {
    const Expr e = random.of(n % 2 == 0 ? Kind::kScore : Kind::kKeep);
    const Expr simplified = simplify(e);
    INFO(print(e), "  ->  ", print(simplified));
    REQUIRE(simplified.type() == e.type());
    REQUIRE(simplified.nodes().size() <= e.nodes().size());
    REQUIRE(same(simplify(simplified), simplified));
    const test::RandomValues values(e, static_cast<std::uint64_t>(n), true);
    const auto readers = test::readers_of(simplified, e, values.readers());
    Evaluator evaluate(e), evaluate_simplified(simplified);
    for (int m = 0; m < points; ++m) {
      Environment point = test::random_point(random, values, true);
      constexpr double kScores[] = {0.0, -0.0, INFINITY, -INFINITY, NAN};
      if (random.once_in(3)) point.score = kScores[random.below(5)];
      const Value value = evaluate(point);
      point.operands = readers;
      REQUIRE(test::same_value(evaluate_simplified(point), value));
    }
  }
}

}  // namespace

TEST_CASE("simplify changes no value") { check_values(11, 3000, 20); }

TEST_CASE("slow: simplify changes no value at a million points") { check_values(12, 20000, 50); }

TEST_CASE("operations without effect go") {
  CHECK(keep("i + 0 == 0 + j") == "i == j");
  CHECK(keep("(i - 0) * 1 == 1 * j // 1") == "i == j");
  CHECK(keep("i * 0 + j % 1 == (j & 0)") == "true");
  CHECK(keep("(i | 0 ^ j) == (i << 0 >> 0)") == "(i | j) == i");
  CHECK(keep("i - i == (j ^ j)") == "true");
  CHECK(keep("--i < 0 - j") == "i < -j");
  CHECK(keep("i + 3 + 4 + -7 == j") == "i == j");
  CHECK(keep("min(min(i, 5), 3) == max(j, j)") == "min(i, 3) == j");
  CHECK(keep("i % 0 == i // 0") == "i == 0");
  CHECK(score("--s * 1 / 1 - 0.0 + -0.0") == "s");
  CHECK(score("s * -1.0") == "-s");
  CHECK(keep("3 + i == 4 * j") == "i + 3 == j * 4");
  CHECK(keep("i + -j == i - -j") == "i - j == i + j");
  CHECK(score("s + -gate - -s") == "s - gate + s");
  CHECK(score("abs(-abs(s))") == "abs(s)");
  CHECK(score("floor(floor(s))") == "floor(s)");
}

TEST_CASE("bools and choices become simpler") {
  CHECK(keep("!!flag && true") == "flag");
  CHECK(keep("flag && false || i < j") == "i < j");
  CHECK(keep("flag || true") == "true");
  CHECK(keep("!(i < j)") == "i >= j");
  CHECK(keep("!(i == j) || flag && flag") == "i != j || flag");
  CHECK(keep("i < i || j >= j") == "true");
  CHECK(keep("flag == true") == "flag");
  CHECK(keep("(i < j) == false") == "i >= j");
  CHECK(keep("flag ? true : false") == "flag");
  CHECK(keep("i < j ? false : true") == "i >= j");
  CHECK(score("1 < 2 ? s : log(s)") == "s");
  CHECK(score("!flag ? s : gate") == "flag ? gate : s");
  CHECK(score("flag ? s : s") == "s");
}

TEST_CASE("constants are folded where fp32 holds the result") {
  CHECK(score("2 * 3 + 1.5") == "7.5");
  CHECK(score("1.0 / 4.0 * s") == "0.25 * s");
  CHECK(score("1.0 / 3.0 * s") == "1.0 / 3.0 * s");
  CHECK(score("exp(0) + sqrt(4) + tanh(0.0) + s") == "3.0 + s");
  CHECK(score("0.1 + 0.2") == "0.1 + 0.2");
  CHECK(score("clamp(7.5, 0, 3) + float(int(2.75))") == "5.0");
  CHECK(score("log(0.0)") == "-inf");
  CHECK(keep("7 // 2 == 3 && inf > 3e38") == "true");
  CHECK(keep("9223372036854775807 + 1 == -9223372036854775808") == "true");
}

TEST_CASE("what could change a value stays") {
  for (const char* text :
       {"s * 0.0", "s + 0.0", "0.0 - s", "s - s", "s / s", "0.0 / s", "inf - inf", "min(s, inf)",
        "s * 2.0 / 2.0", "exp(log(s))", "s + 1.0 - 1.0"}) {
    CHECK(score(text) == text);
  }
  CHECK(keep("gate == gate") == "gate == gate");
  CHECK(keep("!(gate < 1.0)") == "!(gate < 1.0)");
  CHECK(keep("!(gate != 1.0)") == "gate == 1.0");
}

}  // namespace expr_simplify_test
