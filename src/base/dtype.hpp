#pragma once
#include "attnjit/tensor.hpp"
#include "base/fields.hpp"

/// The words for dtypes in JSON, on the command line and in messages.
template <>
struct attnjit::base::Words<attnjit::DType> {
  static constexpr Word<DType> kAll[] = {{"fp16", DType::kFloat16}, {"bf16", DType::kBFloat16},
                                         {"fp32", DType::kFloat32}, {"bool", DType::kBool},
                                         {"int32", DType::kInt32},  {"int64", DType::kInt64}};
};
