#include "cache/entry.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <type_traits>

#include "attnjit/error.hpp"
#include "cache/cubin.hpp"

namespace attnjit::cache {
namespace {

// As in the signature of PNG: a transfer as text changes one of the last four bytes, and one that
// keeps 7 bits changes the first.
constexpr std::array<char, 8> kMagic = {'\x89', 'A', 'T', 'K', '\r', '\n', '\x1a', '\n'};
constexpr std::uint64_t kCubinAlignment = 64;  // bytes
constexpr std::uint64_t kMaxIdentityBytes = 1024;

/// A file is: Header, arch, compiler id, meta, zeros up to a multiple of kCubinAlignment, cubin.
struct Header {
  std::array<char, 8> magic = kMagic;
  std::uint16_t format = kEntryFormat;
  std::uint16_t header_bytes = 104;
  std::uint32_t flags = 0;
  std::uint32_t arch_bytes = 0;
  std::uint32_t compiler_bytes = 0;
  std::uint64_t meta_bytes = 0;
  std::uint64_t cubin_bytes = 0;
  base::Digest key{};
  base::Digest checksum{};  // of every other byte of the file
};
static_assert(sizeof(Header) == 104 && std::is_trivially_copyable_v<Header>);
static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr std::size_t kChecksumOffset = sizeof(Header) - sizeof(base::Digest);

std::uint64_t cubin_offset(const Header& header) {
  const std::uint64_t end =
      sizeof(Header) + header.arch_bytes + header.compiler_bytes + header.meta_bytes;
  return (end + kCubinAlignment - 1) / kCubinAlignment * kCubinAlignment;
}

/// The part that is over its limit, if any. The limits also keep sums of lengths from wrapping.
const char* oversized(const Header& header) {
  if (header.arch_bytes > kMaxIdentityBytes) return "the architecture's name";
  if (header.compiler_bytes > kMaxIdentityBytes) return "the compiler's identity";
  if (header.meta_bytes > kMaxMetaBytes) return "the meta part";
  if (header.cubin_bytes > kMaxCubinBytes) return "the cubin";
  return nullptr;
}

base::Digest checksum(std::span<const std::byte> file) {
  base::Sha256 hash;
  hash.update(file.first(kChecksumOffset));
  hash.update(file.subspan(sizeof(Header)));
  return hash.finish();
}

std::optional<Rejection> reject_header(const Header& header, std::size_t file_bytes) {
  const auto damaged = [](std::string reason) {
    return Rejection{Rejection::Kind::kDamaged, std::move(reason)};
  };
  if (header.magic != kMagic) return damaged("its first bytes are not those of an entry");
  const bool known = header.header_bytes == sizeof(Header) && header.flags == 0;
  if (header.format != kEntryFormat || !known) {
    return damaged(fmt::format("its header is not of format {}", kEntryFormat));
  }
  if (const char* part = oversized(header)) {
    return damaged(fmt::format("{} claims to be larger than allowed", part));
  }
  const std::uint64_t expected = cubin_offset(header) + header.cubin_bytes;
  if (expected != file_bytes) {
    return damaged(fmt::format("it has {} bytes instead of {}", file_bytes, expected));
  }
  return std::nullopt;
}

std::string text_of(std::span<const std::byte> bytes) {
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

/// `header` fits `bytes`.
Entry unpack(const Header& header, std::span<const std::byte> bytes) {
  const auto after_header = bytes.subspan(sizeof(Header));
  const auto after_arch = after_header.subspan(header.arch_bytes);
  const auto cubin = bytes.subspan(cubin_offset(header));
  return {.key = {header.key},
          .arch = text_of(after_header.first(header.arch_bytes)),
          .compiler_id = text_of(after_arch.first(header.compiler_bytes)),
          .meta_json = text_of(after_arch.subspan(header.compiler_bytes, header.meta_bytes)),
          .cubin = {cubin.begin(), cubin.end()}};
}

}  // namespace

std::vector<std::byte> encode(const Entry& entry) {
  Header header;
  header.arch_bytes = static_cast<std::uint32_t>(entry.arch.size());
  header.compiler_bytes = static_cast<std::uint32_t>(entry.compiler_id.size());
  header.meta_bytes = entry.meta_json.size();
  header.cubin_bytes = entry.cubin.size();
  header.key = entry.key.digest;
  if (const char* part = oversized(header)) {
    throw Error(
        ErrorKind::kCache,
        fmt::format("cache entry {}: {} is larger than an entry may hold", entry.key.text(), part));
  }

  std::vector<std::byte> bytes(cubin_offset(header) + header.cubin_bytes);
  auto end = bytes.begin() + sizeof(Header);
  for (const std::string* text : {&entry.arch, &entry.compiler_id, &entry.meta_json}) {
    end = std::ranges::copy(std::as_bytes(std::span(*text)), end).out;
  }
  std::ranges::copy(entry.cubin, bytes.begin() + static_cast<std::ptrdiff_t>(cubin_offset(header)));

  std::memcpy(bytes.data(), &header, sizeof(Header));
  header.checksum = checksum(bytes);
  std::memcpy(bytes.data(), &header, sizeof(Header));
  return bytes;
}

std::variant<Entry, Rejection> decode(std::span<const std::byte> bytes) {
  const auto damaged = [](const char* reason) {
    return Rejection{Rejection::Kind::kDamaged, reason};
  };
  if (bytes.size() < sizeof(Header)) return damaged("it is shorter than a header");
  Header header;
  std::memcpy(&header, bytes.data(), sizeof(Header));
  if (auto rejection = reject_header(header, bytes.size())) return *std::move(rejection);
  if (checksum(bytes) != header.checksum) return damaged("its checksum does not match");
  Entry entry = unpack(header, bytes);
  if (auto reason = why_not_code(entry.cubin, entry.arch)) {
    return Rejection{Rejection::Kind::kDamaged, *std::move(reason)};
  }
  return entry;
}

}  // namespace attnjit::cache
