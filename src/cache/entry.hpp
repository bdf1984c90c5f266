#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "cache/key.hpp"

namespace attnjit::cache {

/// A compiled kernel and what is known about it.
struct Entry {
  KernelKey key;
  std::string arch;         ///< with suffix, "sm_90a"
  std::string compiler_id;  ///< exact identity of the compiler that made the cubin
  std::string meta_json;    ///< facts for people and tools; the cache does not look inside
  std::vector<std::byte> cubin;
};

/// Why there is no usable entry.
struct Rejection {
  enum class Kind {
    kDamaged,     ///< not what encode() wrote, or another kernel's
    kMisplaced,   ///< intact, but of another architecture or compiler than its name says
    kUnreadable,  ///< no file, or none that only this user can write
  };
  Kind kind;
  std::string reason;
};

/// The format of entry files. The directory that holds them is named after it (layout.hpp), so that
/// versions of this library that write others never meet.
inline constexpr std::uint16_t kEntryFormat = 1;

inline constexpr std::uint64_t kMaxMetaBytes = std::uint64_t{1} << 20;
inline constexpr std::uint64_t kMaxCubinBytes = std::uint64_t{64} << 20;
/// No entry file is larger: meta, cubin, and room for header, identities and padding.
inline constexpr std::uint64_t kMaxEntryBytes = kMaxMetaBytes + kMaxCubinBytes + 4096;

/// The bytes of an entry file. Throws Error(kCache) where a part is larger than its limit.
std::vector<std::byte> encode(const Entry& entry);

/// Undoes encode(). Checks every length before it is used, the checksum over the whole file, and
/// that the cubin is code for the entry's architecture; never throws over what the bytes hold.
std::variant<Entry, Rejection> decode(std::span<const std::byte> bytes);

}  // namespace attnjit::cache
