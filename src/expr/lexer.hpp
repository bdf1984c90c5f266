#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace attnjit::expr {

/// Bytes of a text at most: more than any expression within kMaxSize has in its canonical form.
inline constexpr std::size_t kMaxText = 65536;

enum class TokenKind { kEnd, kWord, kInt, kFloat, kSymbol };

/// A token of a text, which it points into.
struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string_view text;
  std::size_t place = 0;     ///< of its first byte
  std::uint64_t number = 0;  ///< of an int
  float value = 0;           ///< of a float, rounded to fp32
};

/// Cuts a text into tokens. The text outlives it.
class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  /// The next token. Throws Error(kInvalidProblem) with a caret for a byte that begins none, and
  /// for a number that int64 or fp32 does not hold.
  Token next();

 private:
  Token word();
  Token number();
  Token symbol();
  char at(std::size_t place) const { return place < text_.size() ? text_[place] : '\0'; }

  std::string_view text_;
  std::size_t place_ = 0;
};

/// Throws Error(kInvalidProblem): `message`, then the line of `text` around `place` with a caret
/// under that byte.
[[noreturn]] void reject_at(std::string_view text, std::size_t place, const std::string& message);

}  // namespace attnjit::expr
