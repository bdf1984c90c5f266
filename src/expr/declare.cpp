#include "expr/declare.hpp"

#include "expr/make.hpp"
#include "expr/reject.hpp"

namespace attnjit::expr {
namespace {

Type type_of(const attnjit::Operand& operand) {
  switch (operand.tensor.dtype) {
    case DType::kFloat16:
    case DType::kBFloat16:
    case DType::kFloat32:
      return Type::kFloat;
    case DType::kInt32:
      return Type::kInt;
    case DType::kBool:
      return Type::kBool;
    case DType::kInt64:
      break;
  }
  reject("operand {}: dtype {} is none; expected fp32, fp16, bf16, int32 or bool", operand.name,
         static_cast<std::int32_t>(operand.tensor.dtype));
}

}  // namespace

std::vector<OperandDeclaration> declarations(std::span<const attnjit::Operand> operands) {
  std::vector<OperandDeclaration> list;
  for (const attnjit::Operand& operand : operands) {
    if (operand.name == nullptr) reject("operand {}: the name is null", list.size());
    if (operand.rank < 0 || operand.rank > kMaxRank) {
      reject("operand {}: rank is {}; expected 0 to {}", operand.name, operand.rank, kMaxRank);
    }
    list.push_back({operand.name, type_of(operand), operand.rank});
  }
  check_declarations(list);
  return list;
}

}  // namespace attnjit::expr
