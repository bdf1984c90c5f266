#include "tensor/random.hpp"

#include <cmath>
#include <numbers>

namespace attnjit::tensor {

double Random::normal(std::uint64_t index) const {
  // Box-Muller on the two halves of one word; the radius is at most sqrt(66 log 2) = 6.8.
  const std::uint64_t word = bits(index);
  const double radius_draw = (static_cast<double>(word >> 32) + 0.5) * 0x1p-32;
  const double angle = static_cast<double>(word & 0xffffffffu) * 0x1p-32;
  return std::sqrt(-2.0 * std::log(radius_draw)) * std::cos(2.0 * std::numbers::pi * angle);
}

}  // namespace attnjit::tensor
