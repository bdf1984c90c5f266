#include "codegen/formula.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "problem/problem.hpp"

namespace attnjit::codegen {
namespace {

using expr::Expr;
using expr::Index;
using expr::IntRange;
using expr::Op;
using expr::Range;
using expr::Type;
using expr::use_of;
using expr::Uses;

constexpr IntRange kInt32{std::numeric_limits<std::int32_t>::min(),
                          std::numeric_limits<std::int32_t>::max()};

constexpr expr::FloatRange kAnyFloat{.may_be_nan = true};
// Larger scores and elements count as infinite, so that a product of one and a distance is finite.
constexpr expr::FloatRange kUsualFloat{-0x1p90, 0x1p90, false};

// The ranges of all parts in any call, if s and elements are such floats.
std::vector<Range> ranges_of(const Expr& e, const expr::FloatRange& floats) {
  constexpr std::int64_t kLength = problem::kMaxSeqlen;
  expr::Box box;
  for (const Index index : {Index::kBatch, Index::kHeadQ, Index::kHeadKv}) {
    box.indices[index] = {0, kInt32.last};
  }
  box.indices[Index::kRow] = box.indices[Index::kKey] = {0, kLength - 1};
  box.indices[Index::kNumQueries] = box.indices[Index::kNumKeys] = {0, kLength};
  for (const Index index : {Index::kRowOffset, Index::kKeyOffset}) {
    box.indices[index] = {-kLength, kLength};
  }
  // A number of the call's, and the difference of the lengths.
  box.indices[Index::kOffset] = {-2 * kLength, 2 * kLength};
  box.score = floats;
  const std::vector<expr::OperandRanges> operands = expr::unknown_operands(e, floats);
  box.operands = operands;
  return expr::ranges_of_nodes(e, box);
}

Level level_of(Uses uses, bool packs_heads) {
  const Uses of_row = use_of(Index::kRow) | (packs_heads ? use_of(Index::kHeadQ) : 0);
  const bool row = (uses & of_row) != 0, key = (uses & use_of(Index::kKey)) != 0;
  if ((row && key) || (uses & expr::kUsesScore) != 0) return Level::kPair;
  return row ? Level::kRow : key ? Level::kKey : Level::kHead;
}

std::size_t number_of(const std::string& operand, const Expr& whole) {
  const auto found = std::ranges::find(whole.operands(), operand, &expr::OperandDeclaration::name);
  return static_cast<std::size_t>(found - whole.operands().begin());
}

// Gives names to the parts that get a line of their own: reads those of their operands.
void name_parts(Formula& f) {
  const std::size_t count = f.e.nodes().size();
  std::vector<int> users(count), reads(f.e.operands().size());
  for (std::size_t user = 0; user < count; ++user) {
    for (const int arg : f.e.nodes()[user].arguments()) {
      ++users[static_cast<std::size_t>(arg)];
      if (f.levels[user] != f.level(arg)) f.kept[static_cast<std::size_t>(arg)] = true;
    }
  }
  int values = 0;
  for (std::size_t n = 0; n < count; ++n) {
    const expr::Node& node = f.e.nodes()[n];
    if (node.is(Op::kRead)) {
      const auto operand = static_cast<std::size_t>(node.operand);
      const int before = reads[operand]++;
      f.names[n] = fmt::format("{}{}{}", expr::name(node.type)[0], f.operands[operand],
                               before > 0 ? fmt::format("_{}", before) : "");
    } else if (node.num_args > 0 && (users[n] > 1 || f.kept[n])) {
      f.names[n] = fmt::format("v{}", values++);
    }
  }
}

Formula unnamed(const Expr& e, const expr::Interned& whole, bool packs_heads) {
  Formula f{e, packs_heads, expr::uses_of_nodes(e), ranges_of(e, kAnyFloat), {}, {}, {}, {}, {}};
  for (const expr::OperandDeclaration& operand : e.operands()) {
    f.operands.push_back(number_of(operand.name, whole.expression));
    f.dtypes.push_back(whole.dtypes[f.operands.back()]);
  }
  f.levels.resize(e.nodes().size(), Level::kHead);
  f.names.resize(e.nodes().size());
  f.kept.resize(e.nodes().size());
  return f;
}

}  // namespace

Uses varying(bool packs_heads) {
  return use_of(Index::kRow) | use_of(Index::kKey) | expr::kUsesScore |
         (packs_heads ? use_of(Index::kHeadQ) : 0);
}

bool Formula::is_narrow(int place) const {
  const IntRange& ints = range(place).ints;
  return kInt32.contains(ints.first) && kInt32.contains(ints.last);
}

std::optional<std::size_t> Formula::varying_axis(const expr::Node& read) const {
  std::optional<std::size_t> found;
  for (std::size_t axis = 0; axis < read.num_args; ++axis) {
    if (!varies(read.args[axis])) continue;
    if (found) return std::nullopt;
    found = axis;
  }
  return found;
}

bool Formula::has_range(const expr::Node& read) const {
  const std::size_t operand = operands[static_cast<std::size_t>(read.operand)];
  const auto found = std::ranges::find(ranged, operand, &RangedAxis::operand);
  return found != ranged.end() && varying_axis(read) == found->axis;
}

bool Formula::may_wrap(int place) const { return range(place).ints == IntRange{}; }

Formula make_formula(const Expr& e, const expr::Interned& whole, bool packs_heads,
                     std::span<const int> roots) {
  Formula f = unnamed(e, whole, packs_heads);
  std::ranges::transform(f.uses, f.levels.begin(),
                         [&](Uses uses) { return level_of(uses, packs_heads); });
  for (const int root : roots)
    f.kept[static_cast<std::size_t>(root)] = f.level(root) != Level::kPair;
  name_parts(f);
  return f;
}

Formula make_formula(const Expr& e, const expr::Interned& whole, bool packs_heads) {
  Formula f = unnamed(e, whole, packs_heads);
  name_parts(f);
  return f;
}

std::vector<int> parts_of(const Formula& formula, std::span<const int> roots,
                          const std::function<bool(int place)>& ends) {
  std::vector<bool> used(formula.e.nodes().size());
  for (const int root : roots) used[static_cast<std::size_t>(root)] = true;
  std::vector<int> parts;
  for (int place = formula.e.root(); place >= 0; --place) {
    if (!used[static_cast<std::size_t>(place)]) continue;
    parts.push_back(place);
    if (ends && ends(place)) continue;
    for (const int arg : formula.node(place).arguments()) {
      used[static_cast<std::size_t>(arg)] = true;
    }
  }
  std::ranges::reverse(parts);
  return parts;
}

bool is_finite(const Expr& e) {
  const expr::FloatRange floats = ranges_of(e, kUsualFloat).back().floats;
  return !floats.may_be_nan && std::isfinite(floats.low) && std::isfinite(floats.high);
}

}  // namespace attnjit::codegen
