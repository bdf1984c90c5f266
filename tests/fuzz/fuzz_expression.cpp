// Texts of expressions, a keep where the first byte is even and a score where it is odd.
#include <cmath>
#include <string>
#include <vector>

#include "expr/bounds.hpp"
#include "expr/evaluate.hpp"
#include "expr/gradient_form.hpp"
#include "expr/interval.hpp"
#include "expr/parse.hpp"
#include "expr/print.hpp"
#include "expr/simplify.hpp"
#include "fuzz_target.hpp"

using namespace attnjit;
using namespace attnjit::expr;

namespace {

const std::vector<OperandDeclaration> kOperands = {
    {"t", Type::kFloat, 2}, {"x", Type::kFloat, 0}, {"n", Type::kInt, 1}, {"pad", Type::kBool, 2}};

Value element(const OperandDeclaration& operand, const Places& place) {
  const std::int64_t number = place[0] * 3 - place[1];
  if (operand.type == Type::kBool) return Value::of(number % 2 == 0);
  return operand.type == Type::kInt ? Value::of(number)
                                    : Value::of(static_cast<double>(number) / 2);
}

Value value_at(const Expr& e, std::int64_t row, std::int64_t key) {
  std::vector<OperandReader> readers;
  for (const OperandDeclaration& operand : e.operands()) {
    readers.push_back(
        {{4, 4}, [&operand](const Places& place) { return element(operand, place); }});
  }
  Environment point;
  point.indices.of = {1, 5, 2, row, key, 3, 100, 200};
  point.score = 0.5;
  point.operands = readers;
  return evaluate(e, point);
}

bool is_same(const Value& a, const Value& b) {
  return a.integer == b.integer &&
         (a.number == b.number || (std::isnan(a.number) && std::isnan(b.number)));
}

void check(Kind kind, const Expr& e) {
  fuzz::require(same(parse(kind, print(e), kOperands), e), "an expression survives its text");
  fuzz::require(same(parse_canonical(kind, canonical_text(e)), e), "and its canonical text");
  const Expr simplified = simplify(e);
  Box box;
  for (std::size_t n = 0; n < kNumIndices; ++n) box.indices.of[n] = {-5, 200};
  std::vector<OperandRanges> operands;
  for (const OperandDeclaration& operand : e.operands()) {
    operands.push_back({{4, 4}, [&operand](auto) { return Range::all(operand.type); }});
  }
  box.operands = operands;
  const Range values = range(e, box);
  for (const auto& [row, key] : {std::pair{0, 0}, std::pair{7, -5}, std::pair{100, 150}}) {
    const Value value = value_at(e, row, key);
    fuzz::require(is_same(value_at(simplified, row, key), value), "simplify changes no value");
    fuzz::require(values.contains(value), "a range holds the values");
  }
  if (kind == Kind::kKeep) {
    key_bounds(e);
    key_conjuncts(e);
  } else {
    derivative_by_score(e);
    for (const ReadSite& site : read_sites(e)) gradient_form(site.read);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const Kind kind = data[0] % 2 == 0 ? Kind::kKeep : Kind::kScore;
  fuzz::expect_error_or_value(
      [&] { check(kind, parse(kind, fuzz::text(data + 1, size - 1), kOperands)); });
  return 0;
}
