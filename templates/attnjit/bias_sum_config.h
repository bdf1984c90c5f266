#pragma once
#include "attnjit/types.h"

namespace attnjit::kernel {

// Specialises the kernel that reduces fp32 parts of a bias gradient.
struct BiasSumConfig {
  DType dtype;       // of dbias
  bool by_elements;  // few elements of many parts: a thread block each; else a thread each

  ATTNJIT_CONSTEXPR int num_threads() const { return 256; }
  ATTNJIT_CONSTEXPR int shared_bytes() const { return by_elements ? num_threads() * 4 : 0; }
};

// An axis of dbias: its size, and how many neighbours of the parts' axis each element sums.
struct BiasSumAxis {
  int32 size, parts;
  int64 part_stride;    // of the parts, elements
  int64 target_stride;  // of dbias, elements
};

struct BiasSumParams {
  const float* parts;
  void* target;
  BiasSumAxis axis[4];  // batch, head, query, key
  int64 elements;       // of dbias
};

}  // namespace attnjit::kernel
