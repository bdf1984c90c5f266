#pragma once
#include "attnjit.h"
#include "attnjit/error.hpp"

namespace attnjit::runtime {

/// The status of the C API that stands for `kind`.
constexpr attnjit_status status(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalidProblem:
      return ATTNJIT_INVALID_PROBLEM;
    case ErrorKind::kInvalidEnvironment:
      return ATTNJIT_INVALID_ENVIRONMENT;
    case ErrorKind::kUnsupported:
      return ATTNJIT_UNSUPPORTED;
    case ErrorKind::kNoCompiler:
      return ATTNJIT_NO_COMPILER;
    case ErrorKind::kCompile:
      return ATTNJIT_COMPILE_FAILED;
    case ErrorKind::kNoDevice:
      return ATTNJIT_NO_DEVICE;
    case ErrorKind::kCuda:
      return ATTNJIT_CUDA_FAILED;
    case ErrorKind::kCache:
      return ATTNJIT_CACHE_FAILED;
    case ErrorKind::kInternal:
      break;
  }
  return ATTNJIT_INTERNAL;
}

}  // namespace attnjit::runtime
