#pragma once
#include <string_view>

#include "expr/node.hpp"

namespace attnjit::expr {

/// The types that an operation takes and makes.
enum class Signature {
  kNone,        ///< no operation
  kArithmetic,  ///< ints to an int, or floats to a float
  kReal,        ///< floats to a float
  kInteger,     ///< ints to an int
  kOrder,       ///< ints or floats to a bool
  kEquality,    ///< ints, floats or bools to a bool
  kLogic,       ///< bools to a bool
  kToFloat,     ///< any to a float
  kToInt,       ///< any to an int
  kSelect,      ///< a bool and two values of one type to that type
};

enum class Notation { kNone, kPrefix, kInfix, kFunction, kTernary };

/// The strength with which operators bind, as in C; of one level the left one first, but for `? :`.
namespace precedence {
inline constexpr int kTernary = 1, kOr = 2, kAnd = 3, kBitOr = 4, kBitXor = 5, kBitAnd = 6,
                     kEquality = 7, kOrder = 8, kShift = 9, kSum = 10, kProduct = 11, kPrefix = 12,
                     kPrimary = 13;
}  // namespace precedence

struct Operation {
  const char* text = "";
  Notation notation = Notation::kNone;
  Signature signature = Signature::kNone;
  int num_args = 0;
  int precedence = precedence::kPrimary;
};

const Operation& operation(Op op);

/// The operation of that text and notation; kLiteral where there is none.
Op find_operation(std::string_view text, Notation notation);

/// The index of that name, or kNumIndices.
int find_index(std::string_view name);
const char* name(Index which);

/// Whether the grammar has that word, so that no operand may.
bool is_reserved(std::string_view word);

}  // namespace attnjit::expr
