// Expressions written in C++: their nodes, their types, their limits.
#include "unit/expr/build.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "attnjit/error.hpp"
#include "expr/parse.hpp"
#include "expr/print.hpp"
#include "unit/expr/random_expression.hpp"

using namespace attnjit;
using namespace attnjit::expr;
using namespace attnjit::expr::symbols;

namespace expr_build_test {

TEST_CASE("C++ and text are the same expression") {
  const Operand rel = operand("rel", Type::kFloat, 2);
  const Operand doc = operand("doc", Type::kInt, 1);
  const Operand gate = operand("gate", Type::kFloat, 0);
  const auto operands = test::random_operands();
  const auto is = [&](Kind kind, const Expr& e, const char* text) {
    INFO(text);
    CHECK(same(as_kind(kind, e), parse(kind, text, operands)));
  };
  is(Kind::kScore, 50.f * tanh(s / 50.f) + rel(h, clamp(j - i, -128, 128) + 128),
     "50.0 * tanh(s / 50.0) + rel[h, clamp(j - i, -128, 128) + 128]");
  is(Kind::kScore, select(i < j, s * gate(), -Expr(std::numeric_limits<float>::infinity())),
     "i < j ? s * gate : -inf");
  is(Kind::kScore, exp(s) + log(s) + sigmoid(s) + sqrt(s) + floor(s) + abs(s),
     "exp(s) + log(s) + sigmoid(s) + sqrt(s) + floor(s) + abs(s)");
  is(Kind::kScore, min(s, 1) - max(s, 2.0) / to_float(i != j),
     "min(s, 1) - max(s, 2.0) / float(i != j)");
  is(Kind::kKeep, doc(i) == doc(j) && !(j > i + off || b < 1),
     "doc[i] == doc[j] && !(j > i + off || b < 1)");
  is(Kind::kKeep, floor_divide(i, 4) % 3 == ((j & 3) | (h ^ g)), "i // 4 % 3 == (j & 3 | h ^ g)");
  is(Kind::kKeep, (i << 2) >= (j >> 1) && Lq <= Lk && Expr(true),
     "i << 2 >= j >> 1 && Lq <= Lk && true");
  is(Kind::kKeep, to_int(i < j) - -i == 0, "int(i < j) - -i == 0");
}

TEST_CASE("equal parts are one node, arguments before what uses them") {
  const Operand doc = operand("doc", Type::kInt, 1);
  const Expr e = (doc(i) + j) * (doc(i) + j) < doc(i);
  CHECK(e.nodes().size() == 6);  // i, doc[i], j, their sum, its square, <
  CHECK(std::ranges::count(e.nodes(), Op::kRead, &Node::op) == 1);
  for (int place = 0; place <= e.root(); ++place) {
    for (const int arg : e.node(place).arguments()) CHECK(arg < place);
  }
  CHECK(same(part(e, 3), doc(i) + j));
  CHECK(uses(e) == (use_of(Index::kRow) | use_of(Index::kKey)));
  CHECK(uses(s + b) == (kUsesScore | use_of(Index::kBatch)));
}

TEST_CASE("an expression does not depend on the order in which it was built") {
  test::RandomExpressions random(3);
  for (int n = 0; n < 200; ++n) {
    const Expr e = random.score();
    Graph graph;
    graph.import(random.score());  // others before it
    CHECK(same(graph.finish(graph.import(e).back()), e));
    CHECK(graph.finish(graph.import(e).back()).operands() == e.operands());
    CHECK(hash(part(e, e.root())) == hash(e));
  }
}

TEST_CASE("operands are numbered in the order of the text and have one declaration for a name") {
  const Operand x = operand("x", Type::kInt, 1), y = operand("y", Type::kInt, 1),
                z = operand("z", Type::kInt, 0);
  const Expr e = x(y(i)) < z() + y(j);
  REQUIRE(e.operands().size() == 3);
  CHECK(e.operands()[0].name == "x");
  CHECK(e.operands()[1].name == "y");
  CHECK(e.operands()[2].name == "z");
  CHECK((z() < 1).operands().size() == 1);
  CHECK_THROWS_WITH_AS(x(i) < operand("x", Type::kFloat, 1)(i),
                       "operand x is int of rank 1 and float of rank 1; expected one of these",
                       Error);
  Expr sum = x(i);
  for (int n = 0; n < kMaxOperands - 1; ++n)
    sum = sum + operand("o" + std::to_string(n), Type::kInt, 0)();
  CHECK_THROWS_WITH_AS(sum + z(), "more than 16 operands; expected fewer", Error);
}

TEST_CASE("types are checked and limits kept while building") {
  const Operand rel = operand("rel", Type::kFloat, 2);
  CHECK_THROWS_WITH_AS(i && j, "the left side of && is int; expected bool", Error);
  CHECK_THROWS_WITH_AS(rel(h), "operand rel: the number of indices is 1; expected 2", Error);
  CHECK_THROWS_WITH_AS(as_kind(Kind::kKeep, s < 1),
                       "s is used in a keep expression; expected it in a score alone", Error);
  CHECK_THROWS_WITH_AS(operand("i", Type::kInt, 0),
                       "operand i: a word of the grammar; expected another", Error);
  CHECK_THROWS_WITH_AS(Expr(std::nanf("")), "a literal is NaN; expected a number or an infinity",
                       Error);
  Expr deep = s;
  for (int n = 1; n < kMaxDepth; ++n) deep = exp(deep);
  CHECK_THROWS_WITH_AS(exp(deep), "the expression is deeper than 100 levels; expected fewer",
                       Error);
  CHECK(same(parse(Kind::kScore, print(deep), {}), deep));
  Expr wide = s;
  for (int n = 0; n < 10; ++n) wide = wide + wide;
  CHECK(same(parse(Kind::kScore, print(wide), {}), wide));
  CHECK_THROWS_WITH_AS(wide + wide, "the expression has more than 2048 parts; expected fewer",
                       Error);
}

}  // namespace expr_build_test
