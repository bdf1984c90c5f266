#include "expr/selected.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "expr/evaluate.hpp"
#include "expr/parse.hpp"
#include "expr/print.hpp"

namespace attnjit::expr {
namespace {

TEST_CASE("terms over selected keys as texts") {
  KeyTerms terms;
  CHECK(canonical_text(*keep_of_selected(terms)) == "i0[b, g, j] >= 0");
  CHECK_FALSE(score_of_selected(terms).has_value());
  terms.all_name_keys = true;
  CHECK_FALSE(keep_of_selected(terms).has_value());
  CHECK_FALSE(read_num_keys(terms));
  terms.all_name_keys = false;
  terms.right = 0;
  terms.left = 7;
  CHECK(canonical_text(*keep_of_selected(terms)) ==
        "i0[b, g, j] >= 0 && i0[b, g, j] <= i + off && i0[b, g, j] >= i + off + -7");
  CHECK_FALSE(read_num_keys(terms));
  terms.bottom_right = true;
  CHECK(read_num_keys(terms));
  terms.left.reset();
  terms.mask = {.head = Index::kHeadQ};
  CHECK(canonical_text(*keep_of_selected(terms)) ==
        "i0[b, g, j] >= 0 && i0[b, g, j] <= i + (off + (i1[b] - Lk)) && "
        "b2[b, h, i, i0[b, g, j]]");
  terms.softcap = 2;  // without a bias it stays outside
  CHECK_FALSE(score_of_selected(terms).has_value());
  terms.bias = {.head = Index::kHeadKv, .per_row = false};
  CHECK(canonical_text(*score_of_selected(terms)) ==
        "2.0 * tanh(s / 2.0) + f0[b, g, 0, i1[b, g, j]]");
}

TEST_CASE("who reads the number of all keys is known ahead of building") {
  const auto has_it = [](const std::optional<Expr>& e) {
    return e && std::ranges::any_of(e->operands(), [](const OperandDeclaration& operand) {
             return operand.name == kKeyNumbers;
           });
  };
  int readers = 0;
  for (int choice = 0; choice < 2 * 2 * 2 * 2 * 4; ++choice) {
    constexpr const char* kKeeps[] = {"", "j % 2 == 0", "j < Lk - 1", "j <= i + off"};
    KeyTerms terms;
    terms.bottom_right = choice % 2 != 0;
    if (choice / 2 % 2 != 0) terms.left = 4;
    if (choice / 4 % 2 != 0) terms.right = 0;
    terms.has_slopes = choice / 8 % 2 != 0;
    if (const std::string keep = kKeeps[choice / 16]; !keep.empty()) {
      terms.keep = parse(Kind::kKeep, keep, {});
    }
    CAPTURE(choice);
    CHECK(read_num_keys(terms) ==
          (has_it(keep_of_selected(terms)) || has_it(score_of_selected(terms))));
    readers += read_num_keys(terms) ? 1 : 0;
  }
  CHECK(readers == 38);
  KeyTerms terms;
  terms.score = parse(Kind::kScore, "s - float(Lk - j)", {});
  CHECK(read_num_keys(terms));
}

// Values of expressions over five keys of nine, and over the keys that these are.
TEST_CASE("terms over selected keys have the values of the keys' own numbers") {
  constexpr std::int64_t kKeys[] = {4, 0, 8, 4, 2};
  constexpr std::int64_t kNumKeys = 9, kNumRows = 6, kDiagonal = 3;  // off is Lk - Lq
  const OperandReader numbers{{5, 1, 1, 1}, [&](const Places& at) {
                                return Value::of(kKeys[std::min<std::int64_t>(at[2], 4)]);
                              }};
  const OperandReader num_keys{{1}, [](const Places&) { return Value::of(kNumKeys); }};
  const OperandReader slopes{{1, 1}, [](const Places&) { return Value::of(0.5); }};
  const OperandReader pairs{{1, 1, kNumRows, kNumKeys}, [](const Places& at) {
                              return Value::of(static_cast<double>(at[2] * 100 + at[3]));
                            }};
  KeyTerms terms;
  terms.bottom_right = terms.has_slopes = true;
  terms.right = 1;
  terms.left = 4;
  terms.softcap = 3;
  terms.bias = {.head = Index::kHeadQ};
  terms.keep = parse(Kind::kKeep, "j % 2 == 0 && j < Lk - 1 + off - off", {});
  terms.score = parse(Kind::kScore, "s * float(j + 1)", {});
  const auto readers_of = [&](const Expr& e) {
    const std::map<std::string, OperandReader> all = {{kSelectedKeys, numbers},
                                                      {kKeyNumbers, num_keys},
                                                      {kSlopesOfHeads, slopes},
                                                      {kBiasOfKeys, pairs}};
    std::vector<OperandReader> readers;
    for (const OperandDeclaration& operand : e.operands()) {
      readers.push_back(all.at(operand.name));
      if (operand.name == kSelectedKeys) readers.back().shape = {1, 1, 5};
    }
    return readers;
  };
  const Expr keep = *keep_of_selected(terms), score = *score_of_selected(terms);
  const auto of_keep = readers_of(keep), of_score = readers_of(score);
  for (std::int64_t i = 0; i < kNumRows; ++i) {
    for (std::int64_t j = 0; j < 5; ++j) {
      Environment at;
      at.indices[Index::kRow] = i;
      at.indices[Index::kKey] = j;
      at.indices[Index::kNumKeys] = 5;
      at.indices[Index::kOffset] = 5 - kNumRows;  // as of five keys
      at.score = 0.25;
      const std::int64_t key = kKeys[j], middle = i + kDiagonal;
      at.operands = of_keep;
      CHECK(evaluate(keep, at).holds() ==
            (key <= middle + 1 && key >= middle - 4 && key % 2 == 0 && key < kNumKeys - 1));
      at.operands = of_score;
      const double product = 0.25 * static_cast<double>(key + 1);
      const double expected = 3 * std::tanh(product / 3) + static_cast<double>(i * 100 + key) -
                              0.5 * static_cast<double>(std::abs(middle - key));
      CHECK(evaluate(score, at).number == doctest::Approx(expected));
    }
  }
}

}  // namespace
}  // namespace attnjit::expr
