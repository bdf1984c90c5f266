#include <doctest/doctest.h>

#include <string>

#include "attnjit/error.hpp"
#include "expr/interned.hpp"
#include "expr/parse.hpp"

namespace attnjit::expr::interned_test {
namespace {

const OperandDeclaration kOperands[] = {{"doc", Type::kInt, 1}, {"rel", Type::kFloat, 2}};

Ref keep_of(std::string_view text, std::vector<DType> dtypes) {
  return Ref::of(Kind::kKeep, parse(Kind::kKeep, text, kOperands), std::move(dtypes));
}

TEST_CASE("an expression of one text and the same dtypes is one reference") {
  const Ref a = keep_of("doc[i] == doc[j]", {DType::kInt32});
  CHECK(a);
  CHECK(a == keep_of("(doc[i]) == doc[ j ]", {DType::kInt32}));
  CHECK(a != keep_of("doc[i] != doc[j]", {DType::kInt32}));
  CHECK(a.text() == "keep i0[i] == i0[j]; int32");
  CHECK(a->uses == (use_of(Index::kRow) | use_of(Index::kKey)));
  CHECK(!Ref());
  CHECK(Ref().text().empty());
  CHECK(Ref() < a);
}

TEST_CASE("the dtypes of operands are part of a reference") {
  const Expr e = parse(Kind::kScore, "s + rel[h, j - i]", kOperands);
  const Ref wide = Ref::of(Kind::kScore, e, {DType::kFloat32});
  const Ref narrow = Ref::of(Kind::kScore, e, {DType::kBFloat16});
  CHECK(wide != narrow);
  CHECK(wide.text() == "score s + f0[h, j - i]; fp32");
  CHECK((narrow < wide) == (narrow.text() < wide.text()));
  CHECK_THROWS_AS(Ref::of(Kind::kScore, e, {}), Error);
}

TEST_CASE("the text of a reference reads as the same reference") {
  for (const Ref& ref : {keep_of("j <= i + off", {}), keep_of("doc[i] == doc[j]", {DType::kInt32}),
                         Ref::of(Kind::kScore, parse(Kind::kScore, "2.0 * tanh(s / 2.0)", {}), {})}) {
    CAPTURE(ref.text());
    CHECK(Ref::parse(ref.text()) == ref);
  }
  CHECK(!Ref::parse(""));
  for (const char* text :
       {"keep", "keeps j <= i", "keep j  <= i", "keep j <= i; int32", "keep i0[j] == 0; fp33",
        "keep i0[j] == 0", "score s + f0[h]; ", "keep i1[j] == 0; int32"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(Ref::parse(text), Error);
  }
}

TEST_CASE("a handle of a text is that of every equal text") {
  const std::string text = "j <= i + off", same = "j <= i + off";
  CHECK(expression(text) == expression(same));
  CHECK(expression(text).text() == text);
  CHECK(expression(text) != expression("j < i"));
  CHECK(!Expression());
  CHECK_THROWS_AS(expression(""), Error);
  CHECK_THROWS_AS(expression("  "), Error);
  CHECK_THROWS_AS(expression("j @ i"), Error);
  CHECK_THROWS_AS(expression(std::string(70000, 'j')), Error);
}

}  // namespace
}  // namespace attnjit::expr::interned_test
