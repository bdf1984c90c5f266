#pragma once
#include <string_view>

namespace attnjit::explain {

/// The files of configs/measurements, which the build makes a string literal of.
std::string_view embedded_measurements();

}  // namespace attnjit::explain
