#include "cache/cubin.hpp"

#include <elf.h>
#include <fmt/format.h>

#include <charconv>
#include <cstring>

namespace attnjit::cache {
namespace {

constexpr unsigned char kFirstWideAbi = 8;  // of CUDA 13: the number has other bits from here on

/// The number in the name of an architecture; nullopt unless it is "sm_<number><suffix>".
std::optional<unsigned> number_of(std::string_view arch) {
  constexpr std::string_view kPrefix = "sm_";
  if (!arch.starts_with(kPrefix)) return std::nullopt;
  arch.remove_prefix(kPrefix.size());
  unsigned number = 0;
  const auto [rest, error] = std::from_chars(arch.data(), arch.data() + arch.size(), number);
  return error == std::errc{} ? std::optional(number) : std::nullopt;
}

unsigned number_in(const Elf64_Ehdr& header) {
  const unsigned shift = header.e_ident[EI_ABIVERSION] >= kFirstWideAbi ? 8 : 0;
  return (header.e_flags >> shift) & 0xff;
}

}  // namespace

std::optional<std::string> why_not_code(std::span<const std::byte> bytes, std::string_view arch) {
  Elf64_Ehdr header{};
  if (bytes.size() < sizeof(header)) return "its cubin is not an ELF file";
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return "its cubin is not an ELF file";
  const auto number = number_of(arch);
  if (!number) return std::nullopt;
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != EM_CUDA) {
    return "its cubin is not code for a GPU";
  }
  if (number_in(header) == *number) return std::nullopt;
  return fmt::format("its cubin is code for sm_{} and not for {}", number_in(header), arch);
}

}  // namespace attnjit::cache
