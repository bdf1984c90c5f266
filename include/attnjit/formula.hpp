#pragma once
// Expressions written with C++'s operators, for Context::expression():
//
//   using namespace attnjit::formula;
//   const Named rel("rel"), gate("gate");
//   context.expression(50.f * tanh(s / 50.f) * gate() + rel(h, clamp(j - i, -128, 128) + 128));
//
// A term is the text that the language of docs/reference/expressions.md has for it, and nothing is
// checked before Context::expression() and the first call. Of C++'s rules its own precedence holds.
#include <cmath>
#include <concepts>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "attnjit/export.h"

namespace attnjit::inline ATTNJIT_CPP_VERSION::formula {

/// A part of an expression.
class Term {
 public:
  /// The literal true or false.
  template <std::same_as<bool> T>
  Term(T value) : text_(value ? "true" : "false") {}
  /// An int literal.
  template <std::integral T>
  requires(!std::same_as<T, bool>) Term(T value) : text_(int_text(value)) {}
  /// Rounded to fp32, as a literal of a text is.
  template <std::floating_point T>
  Term(T value) : text_(float_text(static_cast<double>(value))) {}
  /// A text of the language, which stands in brackets where it needs them.
  static Term of(std::string text) { return Term(std::move(text)); }

  const std::string& text() const { return text_; }    ///< in the language of expressions
  operator std::string_view() const { return text_; }  ///< for Context::expression()

 private:
  explicit Term(std::string text) : text_(std::move(text)) {}

  // The least number is the negative of none.
  template <class T>
  static std::string int_text(T value) {
    if constexpr (std::signed_integral<T>) {
      if (value == std::numeric_limits<std::int64_t>::min()) return "(-9223372036854775807 - 1)";
      if (value < 0) return "(" + std::to_string(value) + ")";
    }
    return std::to_string(value);
  }
  static std::string float_text(double value) {
    if (std::isnan(value)) return "(0.0 / 0.0)";
    if (std::isinf(value)) return value < 0 ? "(-inf)" : "inf";
    char digits[40];
    std::snprintf(digits, sizeof digits, "%.17e", value);
    return std::signbit(value) ? std::string("(") + digits + ")" : digits;
  }

  std::string text_;
};

/// An operand, by its name: rel(h, j - i) is an element, gate() the value of one of rank 0.
class Named {
 public:
  /// The operand that the call names so.
  explicit Named(std::string name) : name_(std::move(name)) {}

  /// An element, by an index per axis; without indices the value of an operand of rank 0.
  template <class... Indices>
  Term operator()(const Indices&... indices) const {
    std::string list;
    ((list += (list.empty() ? "" : ", ") + Term(indices).text()), ...);
    return Term::of(list.empty() ? name_ : name_ + "[" + list + "]");
  }

 private:
  std::string name_;
};

/// The scaled score, the indices and the numbers of a call.
///@{
inline const Term s = Term::of("s"), b = Term::of("b"), h = Term::of("h"), g = Term::of("g"),
                  i = Term::of("i"), j = Term::of("j"), off = Term::of("off"), Lq = Term::of("Lq"),
                  Lk = Term::of("Lk");
///@}

namespace detail {
inline Term infix(const Term& x, const char* op, const Term& y) {
  return Term::of("(" + x.text() + " " + op + " " + y.text() + ")");
}
inline Term call(const char* function, const Term& x) {
  return Term::of(std::string(function) + "(" + x.text() + ")");
}
inline Term call(const char* function, const Term& x, const Term& y) {
  return Term::of(std::string(function) + "(" + x.text() + ", " + y.text() + ")");
}
}  // namespace detail

/// The operation of this name in the language, whose types and rules hold.
///@{
inline Term operator-(const Term& x) { return Term::of("(-" + x.text() + ")"); }
inline Term operator!(const Term& x) { return Term::of("(!" + x.text() + ")"); }
inline Term operator+(const Term& x, const Term& y) { return detail::infix(x, "+", y); }
inline Term operator-(const Term& x, const Term& y) { return detail::infix(x, "-", y); }
inline Term operator*(const Term& x, const Term& y) { return detail::infix(x, "*", y); }
inline Term operator/(const Term& x, const Term& y) { return detail::infix(x, "/", y); }
inline Term operator%(const Term& x, const Term& y) { return detail::infix(x, "%", y); }
inline Term operator&(const Term& x, const Term& y) { return detail::infix(x, "&", y); }
inline Term operator|(const Term& x, const Term& y) { return detail::infix(x, "|", y); }
inline Term operator^(const Term& x, const Term& y) { return detail::infix(x, "^", y); }
inline Term operator<<(const Term& x, const Term& y) { return detail::infix(x, "<<", y); }
inline Term operator>>(const Term& x, const Term& y) { return detail::infix(x, ">>", y); }
inline Term operator==(const Term& x, const Term& y) { return detail::infix(x, "==", y); }
inline Term operator!=(const Term& x, const Term& y) { return detail::infix(x, "!=", y); }
inline Term operator<(const Term& x, const Term& y) { return detail::infix(x, "<", y); }
inline Term operator<=(const Term& x, const Term& y) { return detail::infix(x, "<=", y); }
inline Term operator>(const Term& x, const Term& y) { return detail::infix(x, ">", y); }
inline Term operator>=(const Term& x, const Term& y) { return detail::infix(x, ">=", y); }
inline Term operator&&(const Term& x, const Term& y) { return detail::infix(x, "&&", y); }
inline Term operator||(const Term& x, const Term& y) { return detail::infix(x, "||", y); }
///@}

/// x // y, the quotient of ints rounded down.
inline Term floor_divide(const Term& x, const Term& y) { return detail::infix(x, "//", y); }
/// condition ? x : y
inline Term select(const Term& condition, const Term& x, const Term& y) {
  return Term::of("(" + condition.text() + " ? " + x.text() + " : " + y.text() + ")");
}
/// The function of this name in the language; to_float and to_int are its float and int.
///@{
inline Term clamp(const Term& x, const Term& low, const Term& high) {
  return Term::of("clamp(" + x.text() + ", " + low.text() + ", " + high.text() + ")");
}
inline Term min(const Term& x, const Term& y) { return detail::call("min", x, y); }
inline Term max(const Term& x, const Term& y) { return detail::call("max", x, y); }
inline Term abs(const Term& x) { return detail::call("abs", x); }
inline Term exp(const Term& x) { return detail::call("exp", x); }
inline Term log(const Term& x) { return detail::call("log", x); }
inline Term tanh(const Term& x) { return detail::call("tanh", x); }
inline Term sigmoid(const Term& x) { return detail::call("sigmoid", x); }
inline Term sqrt(const Term& x) { return detail::call("sqrt", x); }
inline Term floor(const Term& x) { return detail::call("floor", x); }
inline Term to_float(const Term& x) { return detail::call("float", x); }
inline Term to_int(const Term& x) { return detail::call("int", x); }
///@}

}  // namespace attnjit::inline ATTNJIT_CPP_VERSION::formula
