#include "expr/lexer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "attnjit/error.hpp"
#include "base/printable.hpp"

namespace attnjit::expr {
namespace {

constexpr std::size_t kShown = 72;  // columns of the line that a message repeats

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// Longer ones first.
constexpr std::string_view kSymbols[] = {"//", "<<", ">>", "==", "!=", "<=", ">=", "&&", "||",
                                         "+",  "-",  "*",  "/",  "%",  "&",  "|",  "^",  "<",
                                         ">",  "!",  "?",  ":",  "(",  ")",  "[",  "]",  ","};

}  // namespace

void reject_at(std::string_view text, std::size_t place, const std::string& message) {
  place = std::min(place, text.size());
  std::size_t begin = place, end = place;
  while (begin > 0 && text[begin - 1] != '\n') --begin;
  while (end < text.size() && text[end] != '\n') ++end;
  const bool cut_before = place - begin > kShown / 2;
  if (cut_before) begin = place - kShown / 2;
  // Bytes before the place have been read, so that only blanks among them are not shown as one.
  std::string before(text.substr(begin, place - begin));
  std::ranges::replace(before, '\t', ' ');
  before = (cut_before ? "..." : "") + base::printable(before);
  throw Error(ErrorKind::kInvalidProblem,
              fmt::format("{}\n  {}{}\n  {}^", message, before,
                          base::excerpt(text.substr(place, end - place), kShown / 2),
                          std::string(before.size(), ' ')));
}

Token Lexer::next() {
  while (is_blank(at(place_))) ++place_;
  if (place_ >= text_.size()) return {TokenKind::kEnd, {}, place_, 0, 0};
  const char first = at(place_);
  if (is_letter(first)) return word();
  if (is_digit(first) || (first == '.' && is_digit(at(place_ + 1)))) return number();
  return symbol();
}

Token Lexer::word() {
  const std::size_t begin = place_;
  while (is_letter(at(place_)) || is_digit(at(place_))) ++place_;
  return {TokenKind::kWord, text_.substr(begin, place_ - begin), begin, 0, 0};
}

Token Lexer::symbol() {
  for (const std::string_view symbol : kSymbols) {
    if (!text_.substr(place_).starts_with(symbol)) continue;
    const Token token{TokenKind::kSymbol, text_.substr(place_, symbol.size()), place_, 0, 0};
    place_ += symbol.size();
    return token;
  }
  reject_at(text_, place_,
            at(place_) == '=' ? "a single =; expected ==" : "a character that begins nothing");
}

Token Lexer::number() {
  const std::size_t begin = place_;
  const auto skip_digits = [&] {
    while (is_digit(at(place_))) ++place_;
  };
  skip_digits();
  bool is_float = false;
  if (at(place_) == '.') {
    is_float = true;
    ++place_;
    skip_digits();
  }
  const bool has_sign = at(place_ + 1) == '+' || at(place_ + 1) == '-';
  if ((at(place_) == 'e' || at(place_) == 'E') && is_digit(at(place_ + (has_sign ? 2 : 1)))) {
    is_float = true;
    place_ += has_sign ? 2 : 1;
    skip_digits();
  }
  Token token{is_float ? TokenKind::kFloat : TokenKind::kInt, text_.substr(begin, place_ - begin),
              begin, 0, 0};
  if (is_float && at(place_) == 'f') ++place_;
  if (is_letter(at(place_)) || is_digit(at(place_)) || at(place_) == '.') {
    reject_at(text_, place_, "a number goes on with what is no part of it; expected digits");
  }
  const char* last = token.text.data() + token.text.size();
  if (is_float) {
    const auto result = std::from_chars(token.text.data(), last, token.value);
    if (result.ec != std::errc{} || std::isinf(token.value)) {
      reject_at(text_, begin, "a number outside of fp32; expected 1e-45 to 3.4e38, 0.0 or inf");
    }
  } else if (std::from_chars(token.text.data(), last, token.number).ec != std::errc{}) {
    reject_at(text_, begin, "a number outside of int64; expected at most 9223372036854775807");
  }
  return token;
}

}  // namespace attnjit::expr
