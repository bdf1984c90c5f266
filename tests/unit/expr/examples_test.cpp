// The masks and scores that are asked for most: their texts, and what is derived from them.
#include <doctest/doctest.h>

#include <algorithm>

#include "expr/bounds.hpp"
#include "expr/gradient_form.hpp"
#include "expr/interval.hpp"
#include "expr/parse.hpp"
#include "expr/print.hpp"
#include "expr/simplify.hpp"

using namespace attnjit;
using namespace attnjit::expr;

namespace expr_examples_test {

namespace {

const std::vector<OperandDeclaration> kOperands = {
    {"doc_q", Type::kInt, 2},  {"doc_k", Type::kInt, 2},    {"prefix", Type::kInt, 1},
    {"lo", Type::kInt, 2},     {"hi", Type::kInt, 2},       {"tin", Type::kInt, 2},
    {"tout", Type::kInt, 2},   {"slope", Type::kFloat, 1},  {"rel", Type::kFloat, 2},
    {"swin", Type::kFloat, 2}, {"where_to", Type::kInt, 2}, {"gate", Type::kFloat, 0},
    {"cap", Type::kFloat, 0}};

struct Mask {
  const char* text;
  const char* canonical;
  const char* lower;
  const char* upper;
  int rest;      // conjuncts that are no bounds
  int key_only;  // conjuncts that drop keys for every row
};

struct Score {
  const char* text;
  const char* canonical;
  const char* by_score;
  std::vector<GradientForm> forms;  // of its float operands, in the order of the text
};

}  // namespace

TEST_CASE("masks have canonical texts, bounds and unread keys") {
  const Mask masks[] = {
      {"j <= i + off", "j <= i + off", "", "i + off", 0, 0},
      {"j<=i+off && i+off-j<4096", "j <= i + off && i + off - j < 4096", "i + (off - 4095)",
       "i + off", 0, 0},
      {"doc_q[b,i] == doc_k[b,j]", "i0[b, i] == i1[b, j]", "", "", 1, 0},
      {"doc_q[b,i] == doc_k[b,j] && j <= i", "i0[b, i] == i1[b, j] && j <= i", "", "i", 1, 0},
      {"j <= i + off || j < prefix[b]", "j <= i + off || j < i0[b]", "", "", 1, 0},
      {"j <= i && (i - j) % 4 == 0", "j <= i && (i - j) % 4 == 0", "", "i", 1, 0},
      {"i // 512 == j // 512", "i // 512 == j // 512", "", "", 1, 0},
      {"tin[b,j] <= tin[b,i] && tin[b,i] < tout[b,j]",
       "i0[b, j] <= i0[b, i] && i0[b, i] < i1[b, j]", "", "", 2, 0},
      {"j <= i + off || (lo[b,i] <= j && j < hi[b,i])",
       "j <= i + off || i0[b, i] <= j && j < i1[b, i]", "", "", 1, 0},
      {"j < prefix[b] && j <= i", "j < i0[b] && j <= i", "", "min(prefix[b] - 1, i)", 0, 1},
  };
  for (const Mask& mask : masks) {
    INFO(mask.text);
    const Expr e = parse(Kind::kKeep, mask.text, kOperands);
    CHECK(canonical_text(e) == mask.canonical);
    CHECK(same(parse_canonical(Kind::kKeep, mask.canonical), e));
    CHECK(same(simplify(e), e));
    const KeyBounds bounds = key_bounds(e);
    CHECK((bounds.lower ? print(*bounds.lower) : "") == mask.lower);
    CHECK((bounds.upper ? print(*bounds.upper) : "") == mask.upper);
    CHECK(bounds.rest.size() == static_cast<std::size_t>(mask.rest));
    CHECK(key_conjuncts(e).size() == static_cast<std::size_t>(mask.key_only));
  }
}

TEST_CASE("scores have canonical texts, derivatives and gradient forms") {
  using F = GradientForm;
  const Score scores[] = {
      {"s - slope[h] * abs(i + off - j)",
       "s - f0[h] * float(abs(i + off - j))",
       "1.0",
       {F::kBlockSums}},
      {"50 * tanh(s / 50)",
       "50.0 * tanh(s / 50.0)",
       "1.0 / 50.0 * (1.0 - tanh(s / 50.0) * tanh(s / 50.0)) * 50.0",
       {}},
      {"cap * tanh(s / cap)",
       "f0 * tanh(s / f0)",
       "1.0 / f0 * (1.0 - tanh(s / f0) * tanh(s / f0)) * f0",
       {F::kBlockSums}},
      {"s + rel[h, clamp(j - i, -128, 128) + 128]",
       "s + f0[h, clamp(j - i, -128, 128) + 128]",
       "1.0",
       {F::kDiagonals}},
      {"s + swin[h, where_to[i, j]]", "s + f0[h, i1[i, j]]", "1.0", {F::kIndexTable}},
      {"s * sigmoid(gate)", "s * sigmoid(f0)", "sigmoid(f0)", {F::kScale}},
      {"j <= i ? s : -inf", "j <= i ? s : -inf", "j <= i ? 1.0 : 0.0", {}},
      {"s - log(float(1 + abs(i - j))) * gate",
       "s - log(float(1 + abs(i - j))) * f0",
       "1.0",
       {F::kBlockSums}},
  };
  for (const Score& score : scores) {
    INFO(score.text);
    const Expr e = parse(Kind::kScore, score.text, kOperands);
    CHECK(canonical_text(e) == score.canonical);
    CHECK(same(parse_canonical(Kind::kScore, score.canonical), e));
    CHECK(canonical_text(derivative_by_score(e)) == score.by_score);
    std::vector<GradientForm> forms;
    for (const GradientSite& site : gradient_sites(e, float_operands(e), Lengths::kShared)) {
      forms.push_back(site.form);
    }
    CHECK(forms == score.forms);
  }
}

TEST_CASE("a clamped index lies inside its axis, which intervals prove") {
  const Expr e = parse(Kind::kScore, "s + rel[h, clamp(j - i, -128, 128) + 128]", kOperands);
  Box box;
  box.indices[Index::kRow] = box.indices[Index::kKey] = {0, (1 << 29) - 1};
  const std::vector<OperandRanges> operands = {
      {{8, 257}, [](std::span<const IntRange>) { return Range::all(Type::kFloat); }}};
  box.operands = operands;
  const std::vector<Range> ranges = ranges_of_nodes(e, box);
  for (const Node& node : e.nodes()) {
    if (node.is(Op::kRead)) {
      CHECK(ranges[static_cast<std::size_t>(node.args[1])].ints == IntRange{0, 256});
    }
  }
}

}  // namespace expr_examples_test
