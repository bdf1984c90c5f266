#pragma once
#include <string_view>

#include "compiler/facts.hpp"

namespace attnjit::compiler {

/// Reads the verbose ptxas report in NVRTC's program log: resources of the kernel `entry`, and
/// the warnings of the whole program. Leaves nvrtc_version alone.
/// Throws Error(kInternal) when the log reports no kernel of that name.
Facts parse_log(std::string_view log, std::string_view entry);

}  // namespace attnjit::compiler
