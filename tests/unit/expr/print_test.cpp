// Texts of expressions: what parse() makes of them, and how few brackets they have.
#include "expr/print.hpp"

#include <doctest/doctest.h>

#include "attnjit/error.hpp"
#include "expr/parse.hpp"
#include "unit/expr/random_expression.hpp"

using namespace attnjit;
using namespace attnjit::expr;

namespace expr_print_test {

namespace {

std::string printed(Kind kind, const char* text) {
  return print(parse(kind, text, test::random_operands()));
}

}  // namespace

TEST_CASE("an expression survives its text and its canonical text") {
  test::RandomExpressions random(1, {.largest = 2000});
  const auto operands = test::random_operands();
  std::size_t longest = 0;
  for (int n = 0; n < 2000; ++n) {
    const Kind kind = n % 2 == 0 ? Kind::kScore : Kind::kKeep;
    const Expr e = random.of(kind);
    const std::string text = print(e), canonical = canonical_text(e);
    INFO(text);
    REQUIRE(same(parse(kind, text, operands), e));
    REQUIRE(parse(kind, text, operands).operands() == e.operands());
    REQUIRE(same(parse_canonical(kind, canonical), e));
    REQUIRE(canonical_text(parse_canonical(kind, canonical)) == canonical);
    longest = std::max(longest, text.size());
  }
  CHECK(longest > 300);
}

TEST_CASE("a text has the brackets that it needs and no others") {
  const auto score = [](const char* text) { return printed(Kind::kScore, text); };
  CHECK(score("((s + 1.0)) * (2.0)") == "(s + 1.0) * 2.0");
  CHECK(score("(s - 1.0) - (2.0 - s)") == "s - 1.0 - (2.0 - s)");
  CHECK(score("(s * 2.0) / (s / 3.0)") == "s * 2.0 / (s / 3.0)");
  CHECK(score("-(-s)") == "--s");
  CHECK(score("-(s * s)") == "-(s * s)");
  CHECK(score("(-s) * s") == "-s * s");
  CHECK(score("i < j ? (s) : (i > j ? -s : 0.0)") == "i < j ? s : i > j ? -s : 0.0");
  CHECK(score("(i < j ? i > j : flag) ? s : (0.0)") == "(i < j ? i > j : flag) ? s : 0.0");
  CHECK(score("rel[(h), ((j) - (i))]") == "rel[h, j - i]");
  const auto keep = [](const char* text) { return printed(Kind::kKeep, text); };
  CHECK(keep("(i < j && flag) || !(flag)") == "i < j && flag || !flag");
  CHECK(keep("i < j && (flag || !flag)") == "i < j && (flag || !flag)");
  CHECK(keep("!(i < j)") == "!(i < j)");
  CHECK(keep("(i & 3) == (j | 1 ^ 2)") == "(i & 3) == (j | 1 ^ 2)");
  CHECK(keep("((i << 2) + 1) // 4 % 3 == 0") == "((i << 2) + 1) // 4 % 3 == 0");
  CHECK(keep("i - -5 < - 3") == "i - -5 < -3");
}

TEST_CASE("ints beside floats become floats in the text") {
  CHECK(printed(Kind::kScore, "s * 2 + i") == "s * 2.0 + float(i)");
  CHECK(printed(Kind::kScore, "i / 2") == "float(i) / 2.0");
  CHECK(printed(Kind::kScore, "s + 16777217") == "s + float(16777217)");
  CHECK(printed(Kind::kScore, "s + 9223372036854775807") == "s + float(9223372036854775807)");
  CHECK(printed(Kind::kScore, "i") == "float(i)");
  CHECK(printed(Kind::kScore, "float(float(s)) + int(int(i))") == "s + float(i)");
  CHECK(printed(Kind::kScore, "max(s, 1) + clamp(i, 0.5, 3)") ==
        "max(s, 1.0) + clamp(float(i), 0.5, 3.0)");
}

TEST_CASE("literals are the fewest digits that fp32 needs") {
  const auto literal_text = [](const char* text) { return printed(Kind::kScore, text); };
  CHECK(literal_text("0.1") == "0.1");
  CHECK(literal_text("0.10000000149") == "0.1");
  CHECK(literal_text("50.f") == "50.0");
  CHECK(literal_text(".5") == "0.5");
  CHECK(literal_text("1e9") == "1e+09");
  CHECK(literal_text("-0.0") == "-0.0");
  CHECK(literal_text("-inf") == "-inf");
  CHECK(literal_text("1.17549435e-38") == "1.1754944e-38");
  CHECK(literal_text("3.40282347e38") == "3.4028235e+38");
  CHECK(printed(Kind::kKeep, "i == -9223372036854775808") == "i == -9223372036854775808");
  CHECK(printed(Kind::kKeep, "true || false") == "true || false");
}

TEST_CASE("canonical texts name operands by type and number") {
  const auto operands = test::random_operands();
  const Expr e =
      parse(Kind::kScore, "pad[i, doc[j]] ? s : rel[h, doc[i]] + gate + rel[g, 0]", operands);
  CHECK(canonical_text(e) == "b0[i, i1[j]] ? s : f2[h, i1[i]] + f3 + f2[g, 0]");
  const std::vector<OperandDeclaration> others = {
      {"x", Type::kBool, 2}, {"y", Type::kInt, 1}, {"z", Type::kFloat, 2}, {"w", Type::kFloat, 0}};
  const Expr other = parse(Kind::kScore, "x[i, y[j]] ? s : z[h, y[i]] + w + z[g, 0]", others);
  CHECK(same(e, other));
  CHECK(hash(e) == hash(other));
  CHECK(e.operands() != other.operands());
  CHECK_FALSE(same(e, parse(Kind::kScore, "x[i, y[j]] ? s : z[h, y[i]] + w + z[h, 0]", others)));
  const std::vector<OperandDeclaration> of_ints = {{"x", Type::kInt, 1}},
                                        of_floats = {{"x", Type::kFloat, 1}};
  CHECK_FALSE(same(parse(Kind::kKeep, "x[i] == x[j]", of_ints),
                   parse(Kind::kKeep, "x[i] == x[j]", of_floats)));
}

TEST_CASE("an expression that was never a text may be too large for one") {
  using namespace symbols;
  Graph graph;
  int place = graph.add(score());
  for (int n = 0; n < 20; ++n) place = make(graph, Op::kAdd, {place, place});
  CHECK_THROWS_WITH_AS(print(graph.finish(place)),
                       "the expression has more than 2048 parts; expected fewer", Error);
}

}  // namespace expr_print_test
