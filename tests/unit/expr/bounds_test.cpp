// Bounds of j and conjuncts of keep expressions.
#include "expr/bounds.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "expr/parse.hpp"
#include "expr/print.hpp"
#include "unit/expr/build.hpp"
#include "unit/expr/random_values.hpp"

using namespace attnjit;
using namespace attnjit::expr;

namespace expr_bounds_test {

namespace {

const std::vector<OperandDeclaration> kOperands = {
    {"lo", Type::kInt, 2},  {"hi", Type::kInt, 2},   {"w", Type::kInt, 0},
    {"x", Type::kFloat, 1}, {"pad", Type::kBool, 2}, {"pair", Type::kInt, 2}};

Expr keep(std::string_view text) { return parse(Kind::kKeep, text, kOperands); }

std::string joined(const std::vector<Expr>& terms) {
  std::string text;
  for (const Expr& term : terms) text += (text.empty() ? "" : "; ") + print(term);
  return text;
}

// "lower .. upper; rest"
std::string bounds(std::string_view text) {
  const KeyBounds found = key_bounds(keep(text));
  std::string all = found.lower ? print(*found.lower) + " .." : "..";
  if (found.upper) all += " " + print(*found.upper);
  if (!found.rest.empty()) all += "; " + joined(found.rest);
  return all;
}

}  // namespace

TEST_CASE("a conjunction is split into its terms") {
  CHECK(joined(conjuncts(keep("i < j && (pad[b, j] && j < 5)"))) == "i < j; pad[b, j]; j < 5");
  CHECK(joined(conjuncts(keep("!(i < j || pad[b, j])"))) == "i >= j; !pad[b, j]");
  CHECK(joined(conjuncts(keep("!(i < j || !(i < 5 && j < 5))"))) == "i >= j; i < 5; j < 5");
  CHECK(joined(conjuncts(keep("i < j || j < 5"))) == "i < j || j < 5");
  CHECK(joined(conjuncts(keep("true && i + 0 < j"))) == "i < j");
  CHECK(joined(conjuncts(keep("true"))) == "");
  CHECK(joined(conjuncts(keep("false"))) == "false");
}

TEST_CASE("linear inequalities are bounds of j") {
  CHECK(bounds("j <= i + off") == ".. i + off");
  CHECK(bounds("j < i + off") == ".. i + (off - 1)");
  CHECK(bounds("i >= j") == ".. i");
  CHECK(bounds("j > i - 5") == "i - 4 ..");
  CHECK(bounds("j <= i && i - j < 256") == "i - 255 .. i");
  CHECK(bounds("lo[b, i] <= j && j < hi[b, i]") == "..; lo[b, i] <= j; j < hi[b, i]");
  CHECK(bounds("lo[b, h] <= j && j < hi[b, h]") == "lo[b, h] .. hi[b, h] - 1");
  CHECK(bounds("abs(i - j) <= w") == "i - w .. i + w");
  CHECK(bounds("abs(i + off - j) < 8") == "i + (off - 7) .. i + (off + 7)");
  CHECK(bounds("j <= i && j < w && j <= Lk - 3") == ".. min(min(i, w - 1), Lk - 3)");
  CHECK(bounds("j == i") == "i .. i");
  CHECK(bounds("j + i < 10") == ".. 9 - i");
  CHECK(bounds("-j >= -i - 3") == ".. i + 3");
  CHECK(bounds("0 < i - j + w") == ".. i + (w - 1)");
  CHECK(bounds("!(j > i || j < 2)") == "2 .. i");
  CHECK(bounds("i - j < 9 && j <= i && pad[b, j]") == "i - 8 .. i; pad[b, j]");
}

TEST_CASE("other terms are the rest") {
  for (const char* text :
       {"2 * j <= i", "j <= 2 * i", "i < 5", "j != i", "j <= i || j < w", "j * j < 5",
        "j // 512 == i // 512", "float(j) < x[i]", "pad[b, j] == pad[b, i]", "abs(i - j) == 3",
        "abs(i - j) > 3", "j + j < i", "j - i <= i", "j + i + i < 9", "j < lo[b, j]",
        "j - j < i"}) {
    INFO(text);
    const KeyBounds found = key_bounds(keep(text));
    CHECK_FALSE(found.lower);
    CHECK_FALSE(found.upper);
    CHECK(joined(found.rest) == joined(conjuncts(keep(text))));
  }
}

TEST_CASE("a comparison that could wrap is no bound") {
  CHECK(bounds("j - 9223372036854775807 <= i") == "..; j - 9223372036854775807 <= i");
  CHECK(bounds("j + w * w * w <= i") == "..; j + w * w * w <= i");
  CHECK(bounds("j + (w * w * w & 1023) <= i") == ".. i - (w * w * w & 1023)");
}

TEST_CASE("terms that read only b, g and j tell of unread keys") {
  const auto unread = [](const char* text) { return joined(key_conjuncts(keep(text))); };
  CHECK(unread("j < w && j <= i && pad[b, j]") == "j < w; pad[b, j]");
  CHECK(unread("pad[g, j] && pad[h, j] && x[j] < 1.0") == "pad[g, j]; x[j] < 1.0");
  CHECK(unread("j < Lk - Lq + off && pad[i, j]") == "j < Lk - Lq + off");
  CHECK(unread("pad[b, j] || i < j") == "");
}

TEST_CASE("bounds and rest together keep what the expression keeps") {
  // Conjunctions of random comparisons, most of them linear.
  test::RandomExpressions random(41, {.depth = 3});
  const std::vector<OperandDeclaration> operands = test::random_operands();
  const char* linear[] = {"j <= i",
                          "j > i - 7",
                          "i + 3 >= j",
                          "abs(i - j) < 9",
                          "j - top < i",
                          "i + j <= 30",
                          "j >= top",
                          "-j < -3",
                          "j == i + top",
                          "!(j > i || j < doc[b])",
                          "doc[h] + i - j <= 4"};
  int bounded = 0;
  for (int n = 0; n < 600; ++n) {
    Expr e = parse(Kind::kKeep, linear[random.below(11)], operands);
    if (random.once_in(2)) e = e && parse(Kind::kKeep, linear[random.below(11)], operands);
    if (random.once_in(2)) e = e && random.keep();
    const KeyBounds found = key_bounds(e);
    if (found.lower && found.upper) ++bounded;
    const test::RandomValues values(e, static_cast<std::uint64_t>(n), false);
    const auto value = [&](const Expr& part, Environment point) {
      const std::vector<OperandReader> readers = test::readers_of(part, e, values.readers());
      point.operands = readers;
      return evaluate(part, point);
    };
    for (int m = 0; m < 20; ++m) {
      const Environment point = test::random_point(random, values);
      const std::int64_t key = point.indices[Index::kKey];
      const bool is_kept = (!found.lower || value(*found.lower, point).integer <= key) &&
                           (!found.upper || key <= value(*found.upper, point).integer) &&
                           std::ranges::all_of(found.rest, [&](const Expr& term) {
                             return value(term, point).holds();
                           });
      INFO(print(e));
      REQUIRE(value(e, point).holds() == is_kept);
      for (const Expr& term : key_conjuncts(e)) {
        if (!value(term, point).holds()) REQUIRE_FALSE(is_kept);
      }
    }
    for (const auto& bound : {found.lower, found.upper}) {
      if (bound) REQUIRE((uses(*bound) & (use_of(Index::kKey) | kUsesScore)) == 0);
    }
  }
  CHECK(bounded > 100);
}

TEST_CASE("sides of the keys that rows keep: bounded where intervals prove it") {
  const auto sides = [](std::string_view text) {
    const BoundedSides found = bounded_sides(keep(text));
    return std::string(found.left ? "left " : "") + (found.right ? "right" : "");
  };
  CHECK(sides("j <= i + off") == "right");
  CHECK(sides("j <= i && pad[b, j]") == "right");
  CHECK(sides("j // 512 <= i // 512") == "right");
  CHECK(sides("j >= i") == "left ");
  CHECK(sides("abs(i - j) < 128") == "left right");
  CHECK(sides("j <= i || j < w") == "");
  CHECK(sides("lo[b, i] == hi[b, j]") == "");
  CHECK(sides("(i - j) % 4 == 0") == "");
}

TEST_CASE("blocks by which operands are read: those of rows and keys together") {
  const auto blocks = [](std::string_view text) {
    const ReadBlocks found = read_blocks(keep(text));
    return std::pair(found.rows, found.keys);
  };
  CHECK(blocks("pair[i // 64, j // 128] == 0") == std::pair<std::int64_t, std::int64_t>(64, 128));
  CHECK(blocks("pair[i >> 6, j >> 7] == 0") == std::pair<std::int64_t, std::int64_t>(64, 128));
  CHECK(blocks("pair[i // 128, j // 128] > 1 || pair[i // 192, j // 64] > 0") ==
        std::pair<std::int64_t, std::int64_t>(64, 64));
  for (const char* text : {"pair[i, j // 64] == 0", "pair[b, j // 64] == 0", "i // 64 == j // 64",
                           "pair[(i + 1) // 64, j // 64] == 0", "pair[i // h, j // 64] == 0"}) {
    CAPTURE(text);
    CHECK(blocks(text) == std::pair<std::int64_t, std::int64_t>(0, 0));
  }
}

}  // namespace expr_bounds_test
