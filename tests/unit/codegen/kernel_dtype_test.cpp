#include "codegen/kernel_dtype.hpp"

#include <doctest/doctest.h>

using namespace attnjit;
using codegen::kernel_dtype;

TEST_CASE("kernels name the dtypes of numbers, and no others") {
  CHECK(kernel_dtype(DType::kFloat16) == kernel::DType::kFloat16);
  CHECK(kernel_dtype(DType::kBFloat16) == kernel::DType::kBFloat16);
  CHECK(kernel_dtype(DType::kFloat32) == kernel::DType::kFloat32);
  try {
    kernel_dtype(DType::kBool);
    FAIL_CHECK("nothing was thrown");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kInternal);
    CHECK(std::string(error.what()).find("no name for dtype bool") != std::string::npos);
  }
}
