#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace attnjit::base {

using Digest = std::array<std::uint8_t, 32>;

/// SHA-256 (FIPS 180-4) of bytes that arrive in chunks.
class Sha256 {
 public:
  void update(std::span<const std::byte> bytes);
  void update(std::string_view text);

  /// The digest of all that was given. The object is used up.
  Digest finish();

 private:
  void compress(const std::byte* block);

  std::array<std::uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, 64> pending_{};
  std::uint64_t length_ = 0;  // bytes so far
};

/// SHA-256 of `text`.
Digest sha256(std::string_view text);

/// 64 lower-case hexadecimal digits.
std::string hex(const Digest& digest);

/// Hashes named, typed fields so that no two different lists of fields give the same bytes:
/// type, name and value each go in with their length.
class TaggedHash {
 public:
  TaggedHash& field(std::string_view name, std::string_view value);
  TaggedHash& field(std::string_view name, std::int64_t value);

  /// The digest of the fields so far. The object is used up.
  Digest digest();

 private:
  void put(char type, std::string_view name, std::string_view value);

  Sha256 hash_;
};

}  // namespace attnjit::base
