#pragma once
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "attnjit/expression.hpp"
#include "attnjit/tensor.hpp"
#include "expr/bounds.hpp"
#include "expr/make.hpp"

namespace attnjit::expr {

/// The key of kernels: an expression and how the elements of its operands are stored.
struct Interned {
  Kind kind;
  Expr expression;
  std::vector<DType> dtypes;  ///< of its operands, in its order
  Uses uses;                  ///< what its value depends on
  BoundedSides bounded;       ///< of a keep expression
  ReadBlocks blocks;          ///< of a keep expression
  std::string text;           ///< "keep i0[b, i] == i1[b, j]; int32, int32"
};

/// A reference to an expression that the process keeps, once per canonical text and dtypes, for as
/// long as it lives: a number that can stand in a family, compared by one comparison. A default one
/// is absent.
class Ref {
 public:
  Ref() = default;
  /// Keeps it if it is new. Throws Error(kInternal) unless there is a dtype per operand.
  static Ref of(Kind kind, const Expr& e, std::vector<DType> dtypes);
  /// Reads the output of text(); of an empty text the absent one. Throws Error(kInvalidProblem).
  static Ref parse(std::string_view text);

  explicit operator bool() const { return entry_ != nullptr; }
  const Interned* operator->() const { return entry_; }
  const Interned& operator*() const { return *entry_; }
  std::string_view text() const { return entry_ == nullptr ? std::string_view() : entry_->text; }

  /// For hash tables of this process.
  explicit operator std::uint64_t() const { return reinterpret_cast<std::uintptr_t>(entry_); }
  bool operator==(const Ref&) const = default;
  /// The order of the texts, the same in every process.
  std::strong_ordering operator<=>(const Ref& other) const {
    return entry_ == other.entry_ ? std::strong_ordering::equal : text() <=> other.text();
  }

 private:
  friend class RefTable;
  explicit Ref(const Interned* entry) : entry_(entry) {}

  const Interned* entry_ = nullptr;
};

/// The handle of a text that the process keeps. Throws Error(kInvalidProblem) for an empty text,
/// one beyond kMaxText and what is no token of the language; types are checked where operands are
/// known.
Expression expression(std::string_view text);

/// The same characters, in memory that lives as long as the process.
const char* kept_name(std::string_view name);

}  // namespace attnjit::expr
