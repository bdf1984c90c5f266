// Forms of the gradients of operands, by their indices.
#include "expr/gradient_form.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "expr/parse.hpp"

using namespace attnjit;
using namespace attnjit::expr;

namespace expr_gradient_form_test {

namespace {

using F = GradientForm;

const std::vector<OperandDeclaration> kOperands = {
    {"t0", Type::kFloat, 0}, {"t1", Type::kFloat, 1}, {"t2", Type::kFloat, 2},
    {"t3", Type::kFloat, 3}, {"t4", Type::kFloat, 4}, {"n0", Type::kInt, 0},
    {"n1", Type::kInt, 1},   {"n2", Type::kInt, 2},   {"n3", Type::kInt, 3}};

// The form of the last read in `text` that has a gradient.
F form(const char* text) {
  const auto sites = read_sites(parse(Kind::kScore, text, kOperands));
  REQUIRE(!sites.empty());
  return gradient_form(sites.back().read);
}

}  // namespace

TEST_CASE("i and j among the axes are pairs") {
  for (const char* text : {"s + t4[b, h, i, j]", "s + t3[h, i, j]", "s + t2[i, j]", "s + t2[j, i]",
                           "s + t3[0, i, j]"}) {
    INFO(text);
    CHECK(form(text) == F::kPairs);
  }
}

TEST_CASE("what depends on i alone are rows, on j alone keys") {
  for (const char* text : {"s * t1[i]", "s + t2[b, i]", "s + t2[h, g] * t1[i + 1]", "s + t2[i, i]",
                           "s + t1[n1[i // 8]]"}) {
    INFO(text);
    CHECK(form(text) == F::kRows);
  }
  for (const char* text : {"s + t1[j]", "s + t2[g, j]", "s + t1[n1[j]]", "s + t2[h, j % 4]"}) {
    INFO(text);
    CHECK(form(text) == F::kKeys);
  }
}

TEST_CASE("indices that j - i fixes are diagonals") {
  for (const char* text :
       {"s + t2[h, clamp(j - i, -128, 128) + 128]", "s + t1[j - i]", "s + t2[g, abs(i + off - j)]",
        "s + t1[2 * i - j * 2]", "s + t2[h, n1[j - i + 64]]", "s + t3[b, h, min(Lk - (j - i), 7)]",
        "s + t1[-i + j]", "s + t2[h, max(i, j) - min(i, j + off)]", "s + t1[(i < j ? j : i) - i]",
        "s + t2[h, i < j ? 0 : 1]", "s + t1[i - j > 4 ? int(log(float(i - j))) : i - j]"}) {
    INFO(text);
    CHECK(form(text) == F::kDiagonals);
  }
}

TEST_CASE("a table by i and j is an index table") {
  for (const char* text : {"s + t2[h, n2[i, j]]", "s + t1[n2[j, i]]", "s + t2[n2[i, j], g]",
                           "s + t2[0, n2[i, j]]", "s + t1[n3[0, i, j]]"}) {
    INFO(text);
    CHECK(form(text) == F::kIndexTable);
  }
}

TEST_CASE("no i and no j are block sums") {
  for (const char* text : {"s * t0", "s + t1[h]", "s + t2[b, g]", "s + t1[n1[b]]", "s + t1[3]",
                           "s * t1[h // 2 + off]", "s * t1[h] + t1[g]"}) {
    INFO(text);
    CHECK(form(text) == F::kBlockSums);
  }
}

TEST_CASE("a number by which scores are multiplied, and nothing else, is a scale") {
  const auto scale = [](const char* text) {
    const Expr score = parse(Kind::kScore, text, kOperands);
    const auto sites = read_sites(score);
    REQUIRE(!sites.empty());
    return scale_of(score, sites.front().factor);
  };
  for (const char* text :
       {"s * t0", "s / t1[h]", "t2[b, g] * s * exp(t1[3]) + t1[j]", "s * clamp(t0, 0.5, 2.0)",
        "s * exp(t1[h]) - t1[i] * t1[j]", "-s * t0 + s"}) {
    INFO(text);
    CHECK(scale(text));
  }
  for (const char* text : {"s + t0", "s * t0 + t0", "s * s * t0", "tanh(s * t0)", "s * t0 * t1[j]",
                           "s * t0 + s * t1[i]", "s * max(s, t0)", "abs(s) * t0",
                           "s < 0.0 ? s * t0 : s", "(s + t1[j]) * t0"}) {
    INFO(text);
    CHECK_FALSE(scale(text));
  }
  const auto both = scale("s * exp(t0) + t1[j]");
  REQUIRE(both);
  CHECK(same(both->slope, parse(Kind::kScore, "exp(t0)", kOperands)));
  CHECK(same(both->factor, both->slope));
}

TEST_CASE("all else are atomics") {
  for (const char* text :
       {"s + t2[h, i // 8 - j // 8]", "s + t1[i + j]", "s + t2[n2[i, j], n2[j, i]]",
        "s + t2[b, n2[i, j]]", "s + t2[h, n3[b, i, j]]", "s + t2[h, n2[i, j] + 1]",
        "s + t2[i, n2[i, j]]", "s + t1[int(s)]", "s + t1[i < 2 * j ? 0 : 1]",
        "s + t1[i < j ? j : 0]", "s + t1[max(i, 0) - j]", "s + t1[i - j > int(s) ? 0 : 1]",
        "s + t1[i * j - j * i]", "s + t2[n2[j - i, i], 0]"}) {
    INFO(text);
    CHECK(form(text) == F::kAtomics);
  }
}

TEST_CASE("sites are those of the operands asked for, each with what sums are kept apart by") {
  const Expr e =
      parse(Kind::kScore, "s * t1[g] + t0 + t2[h, j - i] + t1[b] + t2[h, j - i + off]", kOperands);
  const auto number = [&](std::string_view name) {
    const auto found = std::ranges::find(e.operands(), name, &OperandDeclaration::name);
    return static_cast<int>(found - e.operands().begin());
  };
  const OperandSet both = 1u << number("t1") | 1u << number("t2");
  const auto sites = gradient_sites(e, both, Lengths::kOwn);
  REQUIRE(sites.size() == 4);
  CHECK(sites[0].operand == number("t1"));
  CHECK(sites[0].form == F::kScale);
  CHECK((sites[0].per_kv_head && !sites[0].per_head && !sites[0].per_batch));
  CHECK((sites[1].per_batch && !sites[1].per_kv_head));
  CHECK(sites[2].operand == number("t2"));
  CHECK((sites[2].per_head && !sites[2].per_batch));
  CHECK((sites[3].per_head && sites[3].per_batch));  // off is each batch element's own
  CHECK_FALSE(gradient_sites(e, both, Lengths::kShared)[3].per_batch);
  CHECK(gradient_sites(e, 0, Lengths::kShared).empty());
  CHECK(float_operands(e) == (both | 1u << number("t0")));
}

TEST_CASE("pairs of packed sequences are added up by atomics") {
  const Expr e = parse(Kind::kScore, "s + t2[i, j]", kOperands);
  CHECK(gradient_sites(e, 1, Lengths::kOwn)[0].form == F::kPairs);
  CHECK(gradient_sites(e, 1, Lengths::kPacked)[0].form == F::kAtomics);
  CHECK(std::string(name(F::kIndexTable)) == "index table");
}

}  // namespace expr_gradient_form_test
