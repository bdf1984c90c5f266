#pragma once
#include <array>
#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/sha256.hpp"

namespace attnjit::cache {

/// A bundle is one file: BundleHeader, `num_members` of BundleRow in ascending order, and the
/// members in the order of their rows, with nothing between and nothing after them. A member is
/// found by its name alone; nothing in a bundle is a path.
enum class MemberKind : std::uint32_t {
  kKernel = 1,  ///< the bytes of an entry file, named by its key
  kRecord = 2,  ///< a tuning record as a line of JSON, named by a digest of its key
};

inline constexpr std::uint16_t kBundleFormat = 1;
/// As in an entry's, a transfer as text changes the first byte or one of the last four.
inline constexpr std::array<char, 8> kBundleMagic = {'\x89', 'A',  'T',    'B',
                                                     '\r',   '\n', '\x1a', '\n'};
inline constexpr std::uint64_t kMaxMembers = std::uint64_t{1} << 18;
inline constexpr std::uint64_t kMaxRecordBytes = std::uint64_t{64} << 10;

struct BundleHeader {
  std::array<char, 8> magic = kBundleMagic;
  std::uint16_t format = kBundleFormat;
  std::uint16_t header_bytes = 56;
  std::uint32_t flags = 0;
  std::uint64_t num_members = 0;
  base::Digest checksum{};  ///< of the header before it, and of the rows
};

/// The identity of a member; rows are sorted by it.
struct MemberName {
  MemberKind kind{};
  std::uint32_t zero = 0;
  base::Digest digest{};
  std::array<char, 16> arch{};  ///< with suffix, "sm_90a"; zeros after it

  auto operator<=>(const MemberName&) const = default;
};

struct BundleRow {
  MemberName name;
  std::uint64_t bytes = 0;
  base::Digest digest{};  ///< SHA-256 of the member
};

static_assert(sizeof(BundleHeader) == 56 && std::is_trivially_copyable_v<BundleHeader>);
static_assert(sizeof(BundleRow) == 96 && std::is_trivially_copyable_v<BundleRow>);
static_assert(std::endian::native == std::endian::little, "the format is little-endian");

}  // namespace attnjit::cache
