// Code for a keep expression: of a pair, of a tile and of a key.
#include <fmt/format.h>

#include <array>
#include <utility>

#include "codegen/expression_code.hpp"
#include "codegen/formula_functions.hpp"
#include "codegen/formula_ranges.hpp"
#include "expr/bounds.hpp"
#include "expr/print.hpp"

namespace attnjit::codegen {
namespace {

using expr::Expr;
using expr::Index;
using expr::use_of;

// Bounds of the keys that rows of all heads share: no kernel has a range of keys for each head.
bool has_shared_bounds(const Expr& term) {
  return (expr::uses(term) & use_of(Index::kHeadQ)) == 0 && expr::key_bounds(term).rest.empty();
}

std::string own_name(const Formula& f, int place) { return f.name(place); }

/// Writes what a keep expression says of more than a pair.
class KeepCode {
 public:
  KeepCode(const expr::Interned& keep, bool packs_heads, std::vector<RangedAxis> ranged)
      : keep_(keep),
        packs_heads_(packs_heads),
        ranged_(std::move(ranged)),
        terms_(expr::conjuncts(keep.expression)) {}

  bool knows_tiles() const {
    const Formula f = formula(keep_.expression);
    return !FormulaRanges(f, {}).is_unknown(f.e.root());
  }

  // The function that tells whether a tile is empty or full.
  std::string tile() const {
    const Formula f = formula(keep_.expression);
    const FormulaRanges ranges(f, [&f](int place) { return own_name(f, place); });
    const int root = f.e.root();
    const bool knows = !ranges.is_unknown(root);
    std::string text = fmt::format(
        "  // Whether anything is known of a tile without a look at its elements.\n"
        "  static constexpr bool kKnowsTiles = {};\n",
        knows);
    if (!knows) return text;
    const std::vector<int> places =
        parts_of(f, std::array{root}, [&](int place) { return ranges.is_unknown(place); });
    return text + fmt::format(
                      "  // Its truth over rows `i` and keys `j`{}.\n"
                      "  template <class Params>\n"
                      "  ATTNJIT_DEVICE static Truth tile(const Params& params, const Place& at, "
                      "Span h, Span i, Span j) {{\n{}    return {};\n  }}\n",
                      packs_heads_ ? " of heads `h`" : "", known_lines(f, ranges, places),
                      ranges.text(root));
  }

  // The keys that rows may keep, by the terms that are bounds.
  std::string bounds() const {
    std::string body;
    for (const Expr& term : terms_) {
      if (!has_shared_bounds(term)) continue;
      const expr::KeyBounds bounds = expr::key_bounds(term);
      if (bounds.lower) body += bound(*bounds.lower, "from");
      if (bounds.upper) body += bound(*bounds.upper, "to");
    }
    return fmt::format(
        "  static constexpr bool kNarrows = {};\n"
        "  // Takes keys away that no row of `i` keeps.\n"
        "  template <class Params>\n"
        "  ATTNJIT_DEVICE static void narrow(const Params& params, const Place& at, Span i, "
        "Span& keys) {{\n{}  }}\n",
        !body.empty(), body);
  }

  // The keys that some row may keep, by the terms that say it of keys alone.
  std::string keys() const {
    std::string body;
    for (const Expr& term : expr::key_conjuncts(keep_.expression)) {
      if (has_shared_bounds(term)) continue;
      const Formula f = formula(term);
      const FormulaText text(f, [&f](int place) { return own_name(f, place); });
      const int root = f.e.root();
      body += fmt::format("    {{\n{}      keeps &= {};\n    }}\n",
                          lines(f, text, parts_of(f, std::array{root}), kInBlock), text.text(root));
    }
    return fmt::format(
        "  static constexpr bool kPicksKeys = {};\n"
        "  // Whether any row may keep key `j`.\n"
        "  template <class Params>\n"
        "  ATTNJIT_DEVICE static bool reads_key(const Params& params, const Place& at, int j) {{\n"
        "    [[maybe_unused]] const Along along = {{j, 0}};\n"
        "    bool keeps = true;\n{}    return keeps;\n  }}\n",
        !body.empty(), body);
  }

 private:
  static constexpr const char* kInBlock = "      ";

  Formula formula(const Expr& e) const {
    Formula f = make_formula(e, keep_, packs_heads_);
    f.ranged = ranged_;
    return f;
  }

  static std::string known_lines(const Formula& f, const FormulaRanges& ranges,
                                 const std::vector<int>& places, std::string_view indent = "    ") {
    std::vector<int> known;
    for (const int place : places) {
      if (!ranges.is_unknown(place)) known.push_back(place);
    }
    return lines(f, ranges, known, indent);
  }

  std::string bound(const Expr& e, const char* side) const {
    const Formula f = formula(e);
    const FormulaRanges ranges(f, [&f](int place) { return own_name(f, place); });
    const int root = f.e.root();
    if (ranges.is_unknown(root)) return "";
    return fmt::format("    {{\n{}      keep_{}(keys, {});\n    }}\n",
                       known_lines(f, ranges, parts_of(f, std::array{root}), kInBlock), side,
                       ranges.text(root));
  }

  const expr::Interned& keep_;
  const bool packs_heads_;
  const std::vector<RangedAxis> ranged_;
  const std::vector<Expr> terms_;
};

}  // namespace

bool knows_tiles(const expr::Interned& keep, bool packs_heads) {
  return KeepCode(keep, packs_heads, ranged_axes(keep, packs_heads)).knows_tiles();
}

std::string keep_formula(const expr::Interned& keep, bool packs_heads) {
  const int root = keep.expression.root();
  Formula f = make_formula(keep.expression, keep, packs_heads, std::array{root});
  f.ranged = ranged_axes(keep, packs_heads);
  const PairFunction keeps{"bool", "keeps", "", {root}, [](const std::vector<std::string>& roots) {
                             return fmt::format("    return {};\n", roots[0]);
                           }};
  const KeepCode code(keep, packs_heads, f.ranged);
  return fmt::format(
      "\n"
      "#include \"attnjit/score/formula_ranges.cuh\"\n"
      "#include \"attnjit/score/formula_reads.cuh\"\n\n"
      "namespace attnjit::kernel {{\nnamespace formula {{\n\n"
      "// {}\nstruct KeepFormula {{\n"
      "  static constexpr int kOperands = {};\n"
      "  static constexpr bool kUsesHead = {};\n\n{}{}{}{}}};\n\n"
      "}}  // namespace formula\n\n"
      "using formula::KeepFormula;\nusing KeepParams = "
      "ExpressionParams<KeepFormula::kOperands>;\n\n"
      "}}  // namespace attnjit::kernel\n",
      expr::canonical_text(keep.expression), keep.dtypes.size(),
      (keep.uses & use_of(Index::kHeadQ)) != 0, functions_by_level(f, std::array{keeps}),
      code.tile(), code.bounds(), code.keys());
}

}  // namespace attnjit::codegen
