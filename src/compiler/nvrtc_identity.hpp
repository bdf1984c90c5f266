#pragma once
#include <optional>
#include <string>

#include "compiler/nvrtc_search.hpp"

namespace attnjit::compiler {

/// 8 hex digits that stand for the exact bytes of libnvrtc and of its builtins library, each named
/// as id_of_file() does, or by its version where its file cannot be read.
std::string nvrtc_id(const std::string& nvrtc, const std::string& builtins);

/// The nvrtc_id() of the NVRTC that a search would open, from its files, which takes a fraction of
/// a millisecond where opening it takes tens. nullopt where that cannot be told: a copy is mapped
/// already, its builtins do not lie beside it, or there is none.
std::optional<std::string> nvrtc_id_from_files(const NvrtcSearch& search);

}  // namespace attnjit::compiler
