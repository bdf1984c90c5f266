#include "expr/placed.hpp"

#include <doctest/doctest.h>

#include <string>

#include "expr/parse.hpp"
#include "expr/print.hpp"

namespace attnjit::expr {
namespace {

std::string placed_text(const char* keep) {
  const OperandDeclaration doc{"doc", Type::kInt, 2};
  return canonical_text(placed(parse(Kind::kKeep, keep, {&doc, 1})));
}

TEST_CASE("i, j and off of a part are counted in the whole") {
  CHECK(placed_text("j <= i") == "j + key_offset <= i + row_offset");
  CHECK(placed_text("j <= off") == "j + key_offset <= off + (key_offset - row_offset)");
  CHECK(placed_text("doc[b, i] == h") == "i0[b, i + row_offset] == h");
}

TEST_CASE("an expression that names an offset adds it itself") {
  CHECK(placed_text("j + key_offset < 9") == "j + key_offset < 9");
  CHECK(placed_text("i + row_offset < j") == "i + row_offset < j");
}

}  // namespace
}  // namespace attnjit::expr
