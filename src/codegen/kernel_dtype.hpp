#pragma once
#include "attnjit/tensor.hpp"
#include "attnjit/types.h"

namespace attnjit::codegen {

/// The dtype of a tensor as kernels name it. Masks have no name there.
inline kernel::DType kernel_dtype(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return kernel::DType::kFloat16;
    case DType::kFloat32:
      return kernel::DType::kFloat32;
    default:
      return kernel::DType::kBFloat16;
  }
}

}  // namespace attnjit::codegen
