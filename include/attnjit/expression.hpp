#pragma once
#include <string>
#include <string_view>

#include "attnjit/tensor.hpp"

namespace attnjit::expr {
class TextTable;
}

namespace attnjit::inline ATTNJIT_CPP_VERSION {

/// A formula of scores or a rule of kept keys, in the language of docs/reference/expressions.md.
/// Context::expression() makes it; a default one is absent. Copies are the same expression, and so
/// are two of equal text. Valid as long as the process.
class Expression {
 public:
  Expression() = default;
  explicit operator bool() const { return text_ != nullptr; }  ///< false where it is absent
  /// Empty where it is absent.
  std::string_view text() const { return text_ == nullptr ? std::string_view() : *text_; }
  bool operator==(const Expression&) const = default;  ///< compares texts, by one pointer

  /// The expression as one pointer, for interfaces in C.
  const void* handle() const { return text_; }
  /// The expression of a pointer that handle() gave.
  static Expression from_handle(const void* handle) {
    return Expression(static_cast<const std::string*>(handle));
  }

 private:
  friend class expr::TextTable;
  explicit Expression(const std::string* text) : text_(text) {}

  const std::string* text_ = nullptr;
};

/// A tensor that expressions read by its name.
struct Operand {
  const char* name = nullptr;  ///< a word of at most 64 letters, digits and underscores
  int rank = 0;                ///< axes, 0 to 4: the first ones of the tensor; a number has none
  Tensor tensor;               ///< fp32, fp16, bf16, kInt32 or kBool, with any strides
};

}  // namespace attnjit::inline ATTNJIT_CPP_VERSION
