#pragma once
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace attnjit::cache {

/// The reason why `bytes` are no code for `arch`, the architecture of an entry; nullopt where they
/// may be. Code for "sm_90a" is an ELF file for CUDA whose header has the number 90; the header
/// does not tell the suffix. An `arch` of another form ("host") needs an ELF file.
std::optional<std::string> why_not_code(std::span<const std::byte> bytes, std::string_view arch);

}  // namespace attnjit::cache
