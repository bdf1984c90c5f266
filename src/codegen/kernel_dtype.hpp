#pragma once
#include "attnjit/error.hpp"
#include "attnjit/tensor.hpp"
#include "attnjit/types.h"
#include "problem/problem.hpp"

namespace attnjit::codegen {

/// The dtype of a tensor as kernels name it. Masks have no name there: throws Error(kInternal).
inline kernel::DType kernel_dtype(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return kernel::DType::kFloat16;
    case DType::kBFloat16:
      return kernel::DType::kBFloat16;
    case DType::kFloat32:
      return kernel::DType::kFloat32;
    case DType::kBool:
    case DType::kInt32:
    case DType::kInt64:
      break;
  }
  throw Error(ErrorKind::kInternal,
              std::string("codegen: kernels have no name for dtype ") + problem::name(dtype) +
                  "; name that of q, of the bias or of dbias (masks are read as bytes). This is a "
                  "bug of attnjit: please report it");
}

}  // namespace attnjit::codegen
