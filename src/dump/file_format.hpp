#pragma once
#include <array>
#include <bit>
#include <cstdint>
#include <type_traits>

#include "base/sha256.hpp"

/// docs/internals/call-dumps.md describes the files.
namespace attnjit::dump {

inline constexpr std::uint16_t kDumpFormat = 1;
/// A transfer as text changes the first byte or one of the last four, as in a cache entry.
inline constexpr std::array<char, 8> kDumpMagic = {'\x89', 'A', 'T', 'C', '\r', '\n', '\x1a', '\n'};
inline constexpr std::uint64_t kMaxHeadBytes = std::uint64_t{1} << 20;
inline constexpr const char* kCallSuffix = ".call";
inline constexpr const char* kResultsSuffix = ".results";

enum class Content : std::uint16_t { kCall = 1, kResults = 2 };

/// A file is: Header, head, and for each part its packed elements and their SHA-256.
struct Header {
  std::array<char, 8> magic = kDumpMagic;
  std::uint16_t format = kDumpFormat;
  Content content{};
  std::uint32_t header_bytes = 56;
  std::uint64_t head_bytes = 0;
  base::Digest digest{};  ///< of the header before it, and of the head
};

static_assert(sizeof(Header) == 56 && std::is_trivially_copyable_v<Header>);
static_assert(std::endian::native == std::endian::little, "the format is little-endian");

/// The digest that belongs into `header`.
base::Digest digest_of(const Header& header, std::string_view head);

}  // namespace attnjit::dump
