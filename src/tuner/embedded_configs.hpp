#pragma once
#include <string_view>

namespace attnjit::tuner {

/// The files of configs/tuning and configs/defaults, which the build makes string literals of.
std::string_view embedded_forward_space();
std::string_view embedded_backward_space();
std::string_view embedded_forward_defaults();
std::string_view embedded_backward_defaults();

/// The lines of all files of configs/records.
std::string_view embedded_records();

}  // namespace attnjit::tuner
