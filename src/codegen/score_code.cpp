// Code for a score expression: its value and its derivative.
#include <fmt/format.h>

#include <array>
#include <numeric>

#include "codegen/expression_code.hpp"
#include "codegen/formula_functions.hpp"
#include "expr/derivative.hpp"
#include "expr/graph.hpp"
#include "expr/print.hpp"
#include "expr/simplify.hpp"

namespace attnjit::codegen {
namespace {

using expr::Expr;
using expr::Graph;
using expr::Index;
using expr::Node;
using expr::Op;

std::string header(const expr::Interned& score, const std::string& body) {
  return fmt::format(
      "\n"
      "#include \"attnjit/score/formula_reads.cuh\"\n\n"
      "namespace attnjit::kernel {{\nnamespace formula {{\n\n"
      "// {}\nstruct ScoreFormula {{\n"
      "  static constexpr int kOperands = {};\n"
      "  static constexpr bool kUsesHead = {};\n{}}};\n\n"
      "}}  // namespace formula\n\n"
      "using formula::ScoreFormula;\nusing ScoreParams = "
      "ExpressionParams<ScoreFormula::kOperands>;\n\n"
      "}}  // namespace attnjit::kernel\n",
      expr::canonical_text(score.expression), score.dtypes.size(),
      (score.uses & expr::use_of(Index::kHeadQ)) != 0, body);
}

std::string returned(const std::vector<std::string>& roots) {
  return fmt::format("    return {};\n", roots[0]);
}

// A function of a float that all pairs of a head share.
std::string head_function(std::string_view name, const Expr& e, const expr::Interned& score) {
  const Formula f = make_formula(e, score, false);
  const FormulaText text(f, [&f](int place) { return f.name(place); });
  std::vector<int> places(e.nodes().size());
  std::iota(places.begin(), places.end(), 0);
  return fmt::format(
      "  // {}\n"
      "  template <class Params>\n"
      "  ATTNJIT_DEVICE static float {}(const Params& params, const Place& at) {{\n"
      "{}    return {};\n  }}\n",
      expr::canonical_text(e), name, lines(f, text, places), text.text(f.e.root()));
}

// Two floats as one expression, whose parts are there once.
Expr beside(const Expr& a, const Expr& b) {
  Graph graph;
  const int first = graph.import(a).back(), second = graph.import(b).back();
  Node both{.op = Op::kAdd, .type = expr::Type::kFloat, .num_args = 2};
  both.args = {first, second};
  return graph.finish(graph.add(both));
}

// The sum of what is added to s at `place`, or nothing where s is more than added to. `uses` tells
// which places have s.
std::optional<int> addend_at(Graph& graph, const Expr& e, const std::vector<int>& places,
                             const std::vector<expr::Uses>& uses, int place) {
  const Node& node = e.node(place);
  const auto has_score = [&](int n) {
    return (uses[static_cast<std::size_t>(n)] & expr::kUsesScore) != 0;
  };
  if (!node.is(Op::kAdd) && !node.is(Op::kSubtract)) return std::nullopt;
  const int left = node.args[0], right = node.args[1];
  const bool is_right = has_score(right);
  if (is_right && (has_score(left) || node.is(Op::kSubtract))) return std::nullopt;
  const int with = is_right ? right : left;
  const int term = places[static_cast<std::size_t>(is_right ? left : right)];
  if (e.node(with).is(Op::kScore)) {
    return node.is(Op::kSubtract) ? expr::make(graph, Op::kNegate, {term}) : term;
  }
  const std::optional<int> rest = addend_at(graph, e, places, uses, with);
  if (!rest) return std::nullopt;
  return expr::make(graph, node.op, {*rest, term});
}

}  // namespace

std::optional<Expr> addend_of(const Expr& score) {
  Graph graph;
  const std::vector<int> places = graph.import(score);
  const auto sum = addend_at(graph, score, places, expr::uses_of_nodes(score), score.root());
  if (!sum) return std::nullopt;
  return expr::simplify(graph.finish(*sum));
}

std::optional<float> cap_of(const Expr& score) {
  const Node& product = score.top();
  if (!product.is(Op::kMultiply)) return std::nullopt;
  const Node &cap = score.node(product.args[0]), &tanh = score.node(product.args[1]);
  if (!cap.is(Op::kLiteral) || !tanh.is(Op::kTanh)) return std::nullopt;
  const Node& quotient = score.node(tanh.args[0]);
  if (!quotient.is(Op::kDivide) || !score.node(quotient.args[0]).is(Op::kScore) ||
      quotient.args[1] != product.args[0] || !(expr::float_value(cap) > 0)) {
    return std::nullopt;
  }
  return expr::float_value(cap);
}

std::string score_formula(const expr::Interned& score, const Expr& slope, bool packs_heads) {
  const Expr both = beside(score.expression, slope);
  const std::vector<int> roots{both.top().args[0], both.top().args[1]};
  const bool finite = is_finite(slope);
  const PairFunction functions[] = {
      {"float", "score", ", float s", {roots[0]}, returned},
      {"float", "differentiate", ", float s, float& score", roots,
       [finite](const std::vector<std::string>& texts) {
         const std::string whole = finite ? texts[1] : fmt::format("finite({})", texts[1]);
         return fmt::format("    score = {};\n    return {};\n", texts[0], whole);
       }}};
  const Formula f = make_formula(both, score, packs_heads, roots);
  return header(score, functions_by_level(f, functions));
}

std::string score_formula(const expr::Interned& score, bool packs_heads) {
  return score_formula(score, expr::derivative_by_score(score.expression), packs_heads);
}

std::string site_formula(const expr::Interned& score, const Expr& read,
                         const std::optional<expr::ScoreScale>& scale) {
  // The read alone: its element is numbered, not loaded.
  class SiteText : public FormulaText {
   public:
    using FormulaText::FormulaText;
    std::string element() const { return fmt::format("element_number({})", place_of(f_.e.top())); }
  };
  const Formula f = make_formula(read, score, false);
  const SiteText text(f, [&f](int place) { return f.name(place); });
  std::vector<int> places(f.e.nodes().size() - 1);
  std::iota(places.begin(), places.end(), 0);
  return fmt::format(
      "\nnamespace attnjit::kernel {{\nnamespace formula {{\n\n"
      "// {}\nstruct SiteFormula {{\n"
      "  static constexpr int kOperands = {};\n"
      "  // The element that a pair reads.\n"
      "  template <class Params>\n"
      "  ATTNJIT_DEVICE static int element(const Params& params, const Place& at, int i, int j) "
      "{{\n{}    return {};\n  }}\n{}}};\n\n"
      "}}  // namespace formula\n\nusing formula::SiteFormula;\n\n"
      "}}  // namespace attnjit::kernel\n",
      expr::canonical_text(read), score.dtypes.size(), lines(f, text, places), text.element(),
      scale ? head_function("slope", scale->slope, score) +
                  head_function("factor", scale->factor, score)
            : "");
}

std::string addend_formula(const expr::Interned& score, const Expr& addend, bool packs_heads) {
  const int root = addend.root();
  const Formula f = make_formula(addend, score, packs_heads, std::array{root});
  const PairFunction function{"float", "addend", "", {root}, returned};
  constexpr expr::Uses kOfBatch = expr::use_of(Index::kBatch) | expr::use_of(Index::kOffset) |
                                  expr::use_of(Index::kNumQueries) | expr::use_of(Index::kNumKeys);
  return header(score, fmt::format("  // Whether it may be infinite or NaN.\n"
                                   "  static constexpr bool kAddsAny = {};\n"
                                   "  // Whether batch elements have addends of their own.\n"
                                   "  static constexpr bool kUsesBatch = {};\n",
                                   !is_finite(addend), (score.uses & kOfBatch) != 0) +
                           functions_by_level(f, std::array{function}));
}

}  // namespace attnjit::codegen
