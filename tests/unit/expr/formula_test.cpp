// Expressions written with C++'s operators are those of the texts.
#include "attnjit/formula.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "expr/parse.hpp"

using attnjit::expr::Kind;
using attnjit::expr::OperandDeclaration;
using attnjit::expr::Type;

namespace formula_test {

namespace {

// By their names: files that are compiled together have others of the same.
using attnjit::formula::b, attnjit::formula::g, attnjit::formula::h, attnjit::formula::i,
    attnjit::formula::j, attnjit::formula::Lk, attnjit::formula::Lq, attnjit::formula::Named,
    attnjit::formula::off, attnjit::formula::s, attnjit::formula::Term;

const std::vector<OperandDeclaration> kOperands = {
    {"rel", Type::kFloat, 2}, {"doc", Type::kInt, 1}, {"gate", Type::kFloat, 0}};

void check(Kind kind, std::string_view written, const char* text) {
  INFO(text);
  INFO(written);
  CHECK(same(parse(kind, written, kOperands), parse(kind, text, kOperands)));
}

}  // namespace

TEST_CASE("operators, functions and literals of C++ are those of the language") {
  const Named rel("rel"), doc("doc"), gate("gate");
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::pair<Term, const char*> scores[] = {
      {50.f * tanh(s / 50.f) + rel(h, clamp(j - i, -128, 128) + 128),
       "50 * tanh(s / 50.0) + rel[h, clamp(j - i, -128, 128) + 128]"},
      {select(i < j, s * gate(), -kInfinity), "i < j ? s * gate : -inf"},
      {exp(s) + log(s) + sigmoid(s) + sqrt(s) + floor(s) + abs(s),
       "exp(s) + log(s) + sigmoid(s) + sqrt(s) + floor(s) + abs(s)"},
      {min(s, 1) - max(s, 2.0) / to_float(i != j), "min(s, 1) - max(s, 2.0) / float(i != j)"},
      {s * 0.1f - -1e-30 * s + kInfinity, "s * 0.1 - -1e-30 * s + inf"},
      {s * -(s + 1) - (s - 2), "s * -(s + 1) - (s - 2)"},
  };
  for (const auto& [term, text] : scores) check(Kind::kScore, term, text);
  const std::pair<Term, const char*> masks[] = {
      {doc(i) == doc(j) && !(j > i + off || b < 1), "doc[i] == doc[j] && !(j > i + off || b < 1)"},
      {floor_divide(i, 4) % 3 == ((j & 3) | (h ^ g)), "i // 4 % 3 == (j & 3 | h ^ g)"},
      {(i << 2) >= (j >> 1) && Lq <= Lk && true, "i << 2 >= j >> 1 && Lq <= Lk && true"},
      {to_int(i < j) - -i == 0, "int(i < j) - -i == 0"},
      {i != std::numeric_limits<std::int64_t>::min(), "i != -9223372036854775807 - 1"},
      {doc(i) * 2u > -7, "doc[i] * 2 > -7"},
  };
  for (const auto& [term, text] : masks) check(Kind::kKeep, term, text);
}

}  // namespace formula_test
