#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "attnjit/expression.hpp"
#include "tensor/random.hpp"

namespace attnjit::instance {

struct ProblemSpec;

/// A random operand of a problem's expressions. Its text is NAME=DTYPE[:AXES[:FILL]]:
/// "rel=fp32:h,257", "doc=int32:b,k:sorted/16", "gate=fp32".
struct OperandSpec {
  enum class Fill {
    kNormal,  ///< N(0, 1)
    kBelow,   ///< at random from 0 to below the limit
    kSorted,  ///< the same, rising along the last axis
    kCount,   ///< the index of the last axis
  };

  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<std::string> axes;  ///< b, h, g, q or k (as in patterns), or a number each
  Fill fill = Fill::kNormal;
  std::int64_t limit = 0;  ///< of kBelow and kSorted; 0: the number of keys

  bool operator==(const OperandSpec&) const = default;
};

/// Throws Error(kInvalidProblem) that says what is expected.
OperandSpec parse_operand(std::string_view text);
std::string text_of(const OperandSpec& operand);

/// Whether the gradient of `operand` is among those that `spec` asks for.
bool wants_gradient(const ProblemSpec& spec, const OperandSpec& operand);

/// Its tensor in a problem of `spec`, whose rows are spec.memory.row_padding apart; without memory.
Tensor operand_view(const ProblemSpec& spec, const OperandSpec& operand);

/// Writes every element. The value depends on `random` and the logical index alone.
void fill_operand(const ProblemSpec& spec, const OperandSpec& operand, const Tensor& tensor,
                  tensor::Random random);

}  // namespace attnjit::instance
