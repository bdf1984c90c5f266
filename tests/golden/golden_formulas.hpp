#pragma once
#include <fmt/format.h>

#include <vector>

#include "codegen/expression_code.hpp"
#include "expr/parse.hpp"
#include "expr/simplify.hpp"
#include "golden/golden_problem.hpp"

namespace attnjit::test {

/// An expression whose rendered header is kept in tests/golden/formulas.
struct GoldenFormula {
  const char* name;
  expr::Kind kind;
  const char* text;
  std::vector<expr::OperandDeclaration> operands = {};
  bool packs_heads = false;
};

inline std::vector<GoldenFormula> golden_formulas() {
  using enum expr::Kind;
  using enum expr::Type;
  return {
      {"causal", kKeep, "j <= i + off"},
      {"window", kKeep, "abs(i + off - j) < width", {{"width", kInt, 0}}},
      {"softcap", kScore, "50.0 * tanh(s / 50.0)"},
      {"alibi", kScore, "s - slope[h] * abs(i + off - j)", {{"slope", kFloat, 1}}},
      {"documents", kKeep, "doc_q[b, i] == doc_k[b, j]", {{"doc_q", kInt, 2}, {"doc_k", kInt, 2}}},
      {"prefix", kKeep, "j <= i + off || j < prefix[b]", {{"prefix", kInt, 1}}},
      {"dilated",
       kKeep,
       "j <= i + off && (i + off - j) % 4 == 0 && pad[b, j]",
       {{"pad", kBool, 2}}},
      {"blocks",
       kKeep,
       "part[b, h, i // 128, j // 64] && j <= i || full[b, h, i // 128, j // 64]",
       {{"part", kBool, 4}, {"full", kBool, 4}}},
      {"relative", kScore, "s + rel[h, clamp(j - i, -128, 128) + 128]", {{"rel", kFloat, 2}}, true},
      {"tree",
       kKeep,
       "tin[b, j] <= tin[b, i] && tin[b, i] < tout[b, j]",
       {{"tin", kInt, 2}, {"tout", kInt, 2}}},
      {"gate", kScore, "s * sigmoid(gate[h] * s) + log(1.0 - s)", {{"gate", kFloat, 1}}, true},
  };
}

inline expr::Ref interned(const GoldenFormula& golden) {
  const expr::Expr e = expr::simplify(expr::parse(golden.kind, golden.text, golden.operands));
  std::vector<DType> dtypes;
  for (const expr::OperandDeclaration& operand : e.operands()) {
    dtypes.push_back(operand.type == expr::Type::kFloat ? DType::kFloat32
                     : operand.type == expr::Type::kInt ? DType::kInt32
                                                        : DType::kBool);
  }
  return expr::Ref::of(golden.kind, e, std::move(dtypes));
}

inline std::string header_of(const GoldenFormula& golden) {
  const expr::Ref ref = interned(golden);
  if (golden.kind == expr::Kind::kKeep) return codegen::keep_formula(*ref, golden.packs_heads);
  const auto addend = codegen::addend_of(ref->expression);
  return addend ? codegen::addend_formula(*ref, *addend, golden.packs_heads)
                : codegen::score_formula(*ref, golden.packs_heads);
}

/// formulas/NAME.cuh: the header that codegen renders of each.
inline void add_formulas(GoldenFiles& files) {
  for (const GoldenFormula& golden : golden_formulas()) {
    files[fmt::format("formulas/{}.cuh", golden.name)] = header_of(golden);
  }
}

}  // namespace attnjit::test
