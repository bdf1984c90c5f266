// Properties of the C API that only C++ can check; runtime_c_api_test.c is its test in C.
#include <doctest/doctest.h>

#include <string>
#include <thread>

#include "attnjit.h"
#include "attnjit/forward.hpp"
#include "runtime/api/c_status.hpp"

using namespace attnjit;

TEST_CASE("each kind of error has the status of its number") {
  const auto last = static_cast<int>(ErrorKind::kInternal);
  for (int kind = 0; kind <= last; ++kind) {
    CHECK(runtime::status(static_cast<ErrorKind>(kind)) == kind + ATTNJIT_INVALID_PROBLEM);
  }
  CHECK(last + ATTNJIT_INVALID_PROBLEM == ATTNJIT_INTERNAL);
}

TEST_CASE("dtypes and diagonals have one number in both APIs") {
  CHECK(static_cast<int>(DType::kFloat16) == ATTNJIT_FLOAT16);
  CHECK(static_cast<int>(DType::kBFloat16) == ATTNJIT_BFLOAT16);
  CHECK(static_cast<int>(DType::kFloat32) == ATTNJIT_FLOAT32);
  CHECK(static_cast<int>(DType::kBool) == ATTNJIT_BOOL);
  CHECK(static_cast<int>(DType::kInt32) == ATTNJIT_INT32);
  CHECK(static_cast<int>(DType::kInt64) == ATTNJIT_INT64);
  CHECK(static_cast<int>(Diagonal::kUnspecified) == ATTNJIT_DIAGONAL_UNSPECIFIED);
  CHECK(static_cast<int>(Diagonal::kTopLeft) == ATTNJIT_DIAGONAL_TOP_LEFT);
  CHECK(static_cast<int>(Diagonal::kBottomRight) == ATTNJIT_DIAGONAL_BOTTOM_RIGHT);
}

TEST_CASE("the text of an error belongs to the thread that made it") {
  CHECK(attnjit_prepare_forward(nullptr, nullptr) == ATTNJIT_INVALID_ARGUMENT);
  std::jthread([] {
    CHECK(std::string(attnjit_last_error()).empty());
    CHECK(attnjit_context_create(nullptr, nullptr) == ATTNJIT_INVALID_ARGUMENT);
  }).join();
  CHECK(std::string(attnjit_last_error()) == "context: is null");
}
