// The grammar, and what messages say of texts that break it.
#include "expr/parse.hpp"

#include <doctest/doctest.h>

#include <random>
#include <string>

#include "attnjit/error.hpp"
#include "expr/print.hpp"
#include "unit/expr/random_expression.hpp"

using namespace attnjit;
using namespace attnjit::expr;

namespace expr_parse_test {

namespace {

std::string refusal(Kind kind, std::string_view text) {
  try {
    parse(kind, text, test::random_operands());
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kInvalidProblem);
    return error.what();
  }
  return "accepted";
}
std::string of_score(std::string_view text) { return refusal(Kind::kScore, text); }
std::string of_keep(std::string_view text) { return refusal(Kind::kKeep, text); }

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int n = 0; n < times; ++n) all += text;
  return all;
}

bool is_same(Kind kind, const char* a, const char* b) {
  const auto operands = test::random_operands();
  return same(parse(kind, a, operands), parse(kind, b, operands));
}

}  // namespace

TEST_CASE("operators bind as in C") {
  const auto keeps = [](const char* a, const char* b) { return is_same(Kind::kKeep, a, b); };
  CHECK(keeps("i + j * 2 == 3", "(i + (j * 2)) == 3"));
  CHECK(keeps("i - j - 1 < 0", "((i - j) - 1) < 0"));
  CHECK(keeps("-i * j < 0", "(-i) * j < 0"));
  CHECK(keeps("i << 1 + j < 9", "(i << (1 + j)) < 9"));
  CHECK(keeps("i < j == j < i", "(i < j) == (j < i)"));
  CHECK(keeps("flag || flag && i < j", "flag || (flag && (i < j))"));
  CHECK(keeps("(i | j ^ 3 & 5) == 0", "(i | (j ^ (3 & 5))) == 0"));
  CHECK(keeps("!flag == flag", "(!flag) == flag"));
  CHECK(keeps("i // 2 % 3 * 4 == 0", "(((i // 2) % 3) * 4) == 0"));
  CHECK(is_same(Kind::kScore, "flag ? s : flag ? 1 : 2", "flag ? s : (flag ? 1 : 2)"));
  CHECK(is_same(Kind::kScore, " s\t+\r\n1 ", "s+1"));
  CHECK_FALSE(keeps("i - (j - 1) < 0", "i - j - 1 < 0"));
}

TEST_CASE("a text of another grammar is refused with a caret under the place") {
  CHECK(of_score("") == "the text ends here; expected a value\n  \n  ^");
  CHECK(of_score("s +") == "the text ends here; expected a value\n  s +\n     ^");
  CHECK(of_score("s + * 2") == "* stands here; expected a value\n  s + * 2\n      ^");
  CHECK(of_score("(s + 1") == "the text ends here; expected )\n  (s + 1\n        ^");
  CHECK(of_score("s 1") == "1 stands here; expected an operator or the end\n  s 1\n    ^");
  CHECK(of_score("s)") == ") stands here; expected an operator or the end\n  s)\n   ^");
  CHECK(of_score("flag ? s") == "the text ends here; expected :\n  flag ? s\n          ^");
  CHECK(of_score("rel[h, j") == "the text ends here; expected ]\n  rel[h, j\n          ^");
  CHECK(of_score("exp s") == "s stands here; expected (\n  exp s\n      ^");
  CHECK(of_score("s = 1") == "a single =; expected ==\n  s = 1\n    ^");
  CHECK(of_score("s + $") == "a character that begins nothing\n  s + $\n      ^");
  CHECK(of_score("s +\n  1x") ==
        "a number goes on with what is no part of it; expected digits\n    1x\n     ^");
  CHECK(of_score("\ts + \x01") == "a character that begins nothing\n   s + \\x01\n       ^");
  CHECK(of_score("rel[h, i, j, b, g]") ==
        "more than 4 values in a list\n  rel[h, i, j, b, g]\n                   ^");
}

TEST_CASE("a name that is none is refused with those that are") {
  const std::vector<OperandDeclaration> operands = {{"doc_q", Type::kInt, 2},
                                                    {"doc_k", Type::kInt, 2}};
  CHECK_THROWS_WITH_AS(parse(Kind::kKeep, "doc_q[b, i] == dog_k[b, j]", operands),
                       "dog_k is no index, function or operand; operands are doc_q, doc_k\n"
                       "  doc_q[b, i] == dog_k[b, j]\n"
                       "                 ^",
                       Error);
  CHECK_THROWS_WITH_AS(parse(Kind::kKeep, "x", {}),
                       "x is no index, function or operand; operands are none\n  x\n  ^", Error);
  CHECK_THROWS_WITH_AS(parse_canonical(Kind::kKeep, "x0[i]"),
                       "x0 is no index, function or operand; operands are none\n  x0[i]\n  ^",
                       Error);
  CHECK_THROWS_WITH_AS(parse_canonical(Kind::kKeep, "b0[i] && b0"),
                       "operand b0 is bool of rank 1 and bool of rank 0; expected one of these\n"
                       "  b0[i] && b0\n           ^",
                       Error);
}

TEST_CASE("a type that an operation does not take is refused at the operation") {
  CHECK(of_keep("i && flag") == "the left side of && is int; expected bool\n  i && flag\n    ^");
  CHECK(of_keep("flag < 1") ==
        "the left side of < is bool; expected int or float (int() and float() convert)\n"
        "  flag < 1\n       ^");
  CHECK(of_keep("0 < i < j") ==
        "the left side of < is bool; expected int or float (int() and float() convert)\n"
        "  0 < i < j\n        ^");
  CHECK(of_keep("i == flag") ==
        "the left side of == is int and the other bool; expected two bools or two numbers\n"
        "  i == flag\n    ^");
  CHECK(of_keep("i & 3 == 0") == "the right side of & is bool; expected int\n  i & 3 == 0\n    ^");
  CHECK(of_score("s // 2") == "the left side of // is float; expected int\n  s // 2\n    ^");
  CHECK(of_score("i ? s : 0") == "the condition of ? : is int; expected bool\n  i ? s : 0\n    ^");
  CHECK(of_score("flag ? s : flag") ==
        "a value of ? : is float and the other bool; expected two bools or two numbers\n"
        "  flag ? s : flag\n       ^");
  CHECK(of_score("s + clamp(s, flag, 1)") ==
        "argument 2 of clamp is bool; expected int or float (int() and float() convert)\n"
        "  s + clamp(s, flag, 1)\n      ^");
  CHECK(of_score("exp(flag)") ==
        "the argument of exp is bool; expected int or float (int() and float() convert)\n"
        "  exp(flag)\n  ^");
  CHECK(of_score("s + -flag") ==
        "what follows - is bool; expected int or float (int() and float() convert)\n"
        "  s + -flag\n      ^");
  CHECK(of_score("min(s)") == "min: the number of arguments is 1; expected 2\n  min(s)\n  ^");
  CHECK(of_score("s + rel[h]") ==
        "operand rel: the number of indices is 1; expected 2\n  s + rel[h]\n      ^");
  CHECK(of_score("s + rel[h, s]") ==
        "index 2 of operand rel is float; expected int\n  s + rel[h, s]\n      ^");
  CHECK(of_score("s + gate[0]") ==
        "operand gate: the number of indices is 1; expected 0\n  s + gate[0]\n      ^");
}

TEST_CASE("a score is a float and a keep a bool without s") {
  CHECK(of_score("i < j") == "the score is bool; expected float\n  i < j\n  ^");
  CHECK(of_keep("i + j") == "the keep expression is int; expected bool\n  i + j\n  ^");
  CHECK(of_keep("i < j && s > 0") ==
        "s is used in a keep expression; expected it in a score alone\n"
        "  i < j && s > 0\n           ^");
}

TEST_CASE("numbers outside of their types are refused") {
  CHECK(of_score("1e39") ==
        "a number outside of fp32; expected 1e-45 to 3.4e38, 0.0 or inf\n  1e39\n  ^");
  CHECK(of_score("s + 1e-60").starts_with("a number outside of fp32"));
  CHECK(of_keep("i < 9223372036854775808").starts_with("a number outside of int64"));
  CHECK(of_keep("i < 99999999999999999999").starts_with("a number outside of int64"));
  CHECK(of_keep("i < - 9223372036854775808") == "accepted");
  CHECK(of_keep("i < -9223372036854775809").starts_with("a number outside of int64"));
  for (const char* text : {"1.2.3", "1f", "0x10", "1e", "1.0ff", "12_", "1..2"}) {
    CHECK(of_score(text).starts_with("a number goes on with what is no part of it"));
  }
}

TEST_CASE("names of operands are words that the grammar does not have") {
  const auto declared = [](const char* name, int rank = 1) {
    const std::vector<OperandDeclaration> operands = {{name, Type::kInt, rank}};
    try {
      check_declarations(operands);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  CHECK(declared("doc_2") == "accepted");
  CHECK(declared("_") == "accepted");
  CHECK(declared("off") == "operand off: a word of the grammar; expected another");
  CHECK(declared("clamp") == "operand clamp: a word of the grammar; expected another");
  CHECK(declared("x", 5) == "operand x: rank is 5; expected 0 to 4");
  for (const char* name : {"", "2x", "a b", "x[", "\xc3\xa4"}) {
    CHECK(declared(name).ends_with("expected a name of 1 to 64 letters, digits and underscores"));
  }
  CHECK(declared(std::string(65, 'x').c_str()).ends_with("letters, digits and underscores"));
  const std::vector<OperandDeclaration> twice = {{"x", Type::kInt, 1}, {"x", Type::kInt, 1}};
  CHECK_THROWS_WITH_AS(check_declarations(twice), "operand x is declared twice", Error);
}

TEST_CASE("depth, size and length are bounded") {
  CHECK(of_score(repeated("(", 190) + "s" + repeated(")", 190)) == "accepted");
  CHECK(of_score(repeated("(", 100000)).starts_with("the text is longer than 65536 bytes\n"));
  CHECK(of_score(repeated("(", 10000))
            .starts_with("more than 200 levels of brackets; expected fewer\n"));
  CHECK(of_score(repeated("-", 10000) + "s").starts_with("more than 200 levels of brackets"));
  CHECK(of_score(repeated("abs(", 10000)).starts_with("more than 200 levels of brackets"));
  CHECK(of_score(repeated("flag?", 10000)).starts_with("more than 200 levels of brackets"));
  CHECK(of_score("s" + repeated(" + s", 90)) == "accepted");
  CHECK(of_score("s" + repeated(" + s", 200))
            .starts_with("the expression is deeper than 100 levels; expected fewer\n"));
  std::string wide = "s";
  for (int n = 0; n < 10; ++n) wide = "(" + wide + " + " + wide + ")";
  CHECK(of_score(wide) == "accepted");
  CHECK(of_score(wide + " + " + wide)
            .starts_with("the expression has more than 2048 parts; expected fewer\n"));
  CHECK(of_score(std::string(65537, ' ')).starts_with("the text is longer than 65536 bytes\n"));
  CHECK(of_score(std::string(65535, ' ') + "s") == "accepted");
}

TEST_CASE("a message shows the part of a long text that is at fault") {
  const std::string message =
      of_score("s" + repeated(" + 1.0", 50) + " + ? " + repeated(" + 1.0", 50));
  CHECK(message ==
        "? stands here; expected a value\n"
        "  ...1.0 + 1.0 + 1.0 + 1.0 + 1.0 + 1.0 + ?  + 1.0 + 1.0 + 1.0 + 1.0 + 1.0 + 1...\n"
        "                                         ^");
}

TEST_CASE("any bytes are a text or an error") {
  std::mt19937 random(7);
  const std::string tokens[] = {"s",    "i",  "j",  "rel",  "[",   "]", "(", ")",   "+",
                                "-",    "<",  "&&", "?",    ":",   ",", "1", "2.5", "clamp",
                                "flag", "//", " ",  "\xff", "doc", "!", "=="};
  int accepted = 0;
  for (int n = 0; n < 20000; ++n) {
    std::string text;
    for (unsigned length = random() % 12; length > 0; --length)
      text += tokens[random() % std::size(tokens)];
    const std::string answer = refusal(n % 2 == 0 ? Kind::kScore : Kind::kKeep, text);
    if (answer == "accepted") {
      ++accepted;
    } else {
      const std::string last = answer.substr(answer.rfind('\n') + 1);
      REQUIRE(last.find_first_not_of(' ') == last.size() - 1);
      REQUIRE(last.back() == '^');
    }
  }
  CHECK(accepted > 100);
}

}  // namespace expr_parse_test
