#pragma once
#include <string_view>

namespace attnjit::torch_library {

/// The schemas of the operators, with an empty line after each but the last.
std::string_view schemas();

}  // namespace attnjit::torch_library
