#pragma once
#include <algorithm>
#include <cstdint>

#include "attnjit/forward.hpp"

namespace attnjit::reference {

/// The plane of each batch element, of a mask, bias or dbias with `planes` of them over a batch.
class PlaneIndex {
 public:
  PlaneIndex(std::int64_t planes, const PlaneOrder& order, std::int64_t batch)
      : planes_(planes),
        inner_(order.inner > 0 ? order.inner : batch / std::max<std::int64_t>(planes, 1)),
        cycle_(order.cycle > 0 ? order.cycle : planes) {
    if (planes > 1 && inner_ > 0) repeats_ = batch / (planes * inner_);
  }

  std::int64_t operator()(std::int64_t element) const {
    if (planes_ <= 1) return 0;
    const std::int64_t stretch = inner_ * cycle_ * repeats_;
    return element / stretch * cycle_ + element / inner_ % cycle_;
  }

 private:
  std::int64_t planes_, inner_, cycle_, repeats_ = 1;
};

}  // namespace attnjit::reference
