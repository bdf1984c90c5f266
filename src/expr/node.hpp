#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace attnjit::expr {

/// The type of a value. Ints are 64 bits wide, floats fp32 in kernels and fp64 in the reference.
enum class Type : std::uint8_t { kBool, kInt, kFloat };

/// "bool", "int" or "float".
const char* name(Type type);

/// The numbers that say which pair of a row and a key a value is of, and where that lies.
enum class Index : std::uint8_t {
  kBatch,       ///< b, batch element or sequence
  kHeadQ,       ///< h
  kHeadKv,      ///< g
  kRow,         ///< i
  kKey,         ///< j
  kOffset,      ///< off, the key of row 0 on the diagonal
  kNumQueries,  ///< Lq
  kNumKeys,     ///< Lk
  kRowOffset,   ///< row_offset
  kKeyOffset,   ///< key_offset
};
inline constexpr int kNumIndices = 10;

/// The operation of a node. Those from kNegate on are operations on the node's arguments.
enum class Op : std::uint8_t {
  kLiteral,
  kIndex,
  kScore,  ///< s
  kRead,   ///< an element of an operand; the arguments are its indices
  kNegate,
  kNot,
  kAbs,
  kExp,
  kLog,
  kTanh,
  kSigmoid,
  kSqrt,
  kFloor,
  kToFloat,
  kToInt,
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kBitAnd,
  kBitOr,
  kBitXor,
  kShiftLeft,
  kShiftRight,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kAnd,
  kOr,
  kMin,
  kMax,
  kClamp,   ///< value, low, high
  kSelect,  ///< condition, value where it holds, value where not
};
inline constexpr int kNumOps = static_cast<int>(Op::kSelect) + 1;

/// Axes of an operand at most, as a tensor has.
inline constexpr int kMaxRank = 4;

/// One value of an expression. Arguments are places of other nodes in the same list.
struct Node {
  Op op = Op::kLiteral;
  Type type = Type::kInt;
  std::uint8_t num_args = 0;
  std::int16_t operand = -1;  ///< of a read
  std::array<std::int32_t, kMaxRank> args{};
  /// Of an index its Index, of a literal its value or the bits of its fp32.
  std::int64_t payload = 0;

  std::span<const std::int32_t> arguments() const { return {args.data(), num_args}; }
  bool is(Op o) const { return op == o; }
  bool operator==(const Node&) const = default;
};

/// A named tensor that an expression reads. fp32, fp16 and bf16 are read as floats, int32 as ints.
struct OperandDeclaration {
  std::string name;
  Type type = Type::kFloat;
  int rank = 0;
  bool operator==(const OperandDeclaration&) const = default;
};

Node literal(bool value);
Node literal(std::int64_t value);
Node literal(float value);  ///< Throws Error(kInvalidProblem) for NaN, which no text says.
Node index(Index which);
Node score();

/// The value of a literal of that type.
std::int64_t int_value(const Node& node);
float float_value(const Node& node);

/// Whether `node` is this literal; floats are compared by their bits, so that -0.0 is not 0.0.
bool is_literal(const Node& node, bool value);
bool is_literal(const Node& node, std::int64_t value);
bool is_literal(const Node& node, float value);

}  // namespace attnjit::expr
