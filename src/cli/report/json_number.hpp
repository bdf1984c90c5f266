#pragma once
#include <cmath>

#include "base/json.hpp"

namespace attnjit::cli {

/// `value`, or null where it is none of JSON's: it has no infinity.
inline base::Json finite_number(double value) {
  return std::isfinite(value) ? base::Json(value) : base::Json(nullptr);
}

}  // namespace attnjit::cli
