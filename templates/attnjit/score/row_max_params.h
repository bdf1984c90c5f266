#pragma once

namespace attnjit::kernel {

// Where the largest scores of rows go.
struct RowMaxParams {
  float* target;  // [row of lse][split]
};

}  // namespace attnjit::kernel
