#pragma once
#include <string_view>

namespace attnjit::cli {

/// Throws Error(kUnsupported) unless `bytes` fit this machine's memory with some room to spare.
/// `what` needs them; `remedy` says what to do.
void check_host_memory(double bytes, std::string_view what, std::string_view remedy);

}  // namespace attnjit::cli
