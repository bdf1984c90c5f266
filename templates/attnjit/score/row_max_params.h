#pragma once

namespace attnjit::kernel {

// The array of the largest scores of rows.
struct RowMaxParams {
  float* target;  // [row of lse][split]
};

}  // namespace attnjit::kernel
