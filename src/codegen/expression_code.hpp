#pragma once
#include <optional>
#include <string>

#include "expr/gradient_form.hpp"
#include "expr/interned.hpp"

/// The expressions of a kernel as structs of device functions that read like the formulas, for the
/// policies of score/keep_expression.cuh, score/score_expression.cuh and score/score_addition.cuh.
/// Stubs hold these texts.
namespace attnjit::codegen {

/// Whether kernels know of a tile that it empties or fills without a look at its pairs.
bool knows_tiles(const expr::Interned& keep, bool packs_heads);

/// KeepFormula and KeepParams. `packs_heads`: rows are of different heads.
std::string keep_formula(const expr::Interned& keep, bool packs_heads);
/// ScoreFormula and ScoreParams.
std::string score_formula(const expr::Interned& score, bool packs_heads);
/// The same with `slope` in the place of its derivative by s.
std::string score_formula(const expr::Interned& score, const expr::Expr& slope, bool packs_heads);
/// SiteFormula, which numbers the element of the operand that a `read` of the score is of. That of
/// form kScale also has the two numbers of its `scale`.
std::string site_formula(const expr::Interned& score, const expr::Expr& read,
                         const std::optional<expr::ScoreScale>& scale = {});
/// That of a score that is `s` and a term without s: of the term.
std::string addend_formula(const expr::Interned& score, const expr::Expr& addend, bool packs_heads);

/// The addend of a `score` that is nothing but the sum of it and s.
std::optional<expr::Expr> addend_of(const expr::Expr& score);

/// c of c * tanh(s / c), if `score` is just that and c is above 0.
std::optional<float> cap_of(const expr::Expr& score);

}  // namespace attnjit::codegen
