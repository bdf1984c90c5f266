#pragma once
#include <string>
#include <string_view>

namespace attnjit::cli {

/// Writes `bytes` to the file `path`. Throws Error(kCache) where that cannot be done.
void write_file(const std::string& path, std::string_view bytes);

}  // namespace attnjit::cli
