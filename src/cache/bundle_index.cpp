#include "cache/bundle_index.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace attnjit::cache {
namespace {

constexpr std::size_t kChecksumAt = sizeof(BundleHeader) - sizeof(base::Digest);

BundleHeader header_of(std::span<const std::byte> head) {
  BundleHeader header;
  std::memcpy(&header, head.data(), sizeof(header));
  return header;
}

bool is_arch(const std::array<char, 16>& arch) {
  const auto* const end = std::find(arch.begin(), arch.end(), '\0');
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  };
  return end != arch.begin() && end != arch.end() && std::all_of(arch.begin(), end, allowed) &&
         std::all_of(end, arch.end(), [](char c) { return c == '\0'; });
}

/// The most bytes of a member of `kind`; 0 for a kind that this format does not have.
std::uint64_t most_bytes(MemberKind kind) {
  switch (kind) {
    case MemberKind::kKernel:
      return kMaxEntryBytes;
    case MemberKind::kRecord:
      return kMaxRecordBytes;
  }
  return 0;
}

bool is_sound(const BundleRow& row) {
  return row.name.zero == 0 && is_arch(row.name.arch) && row.bytes != 0 &&
         row.bytes <= most_bytes(row.name.kind);
}

}  // namespace

std::variant<std::uint64_t, std::string> index_bytes(std::span<const std::byte> head,
                                                     std::uint64_t file_bytes) {
  if (head.size() < sizeof(BundleHeader)) return "it is shorter than a bundle's header";
  const BundleHeader header = header_of(head);
  if (header.magic != kBundleMagic) return "its first bytes are not those of a bundle";
  if (header.format != kBundleFormat) {
    return fmt::format("it has format {}, and this version of attnjit reads {}", header.format,
                       kBundleFormat);
  }
  if (header.header_bytes != sizeof(BundleHeader) || header.flags != 0) {
    return "its header is not of this format";
  }
  if (header.num_members > kMaxMembers ||
      header.num_members * sizeof(BundleRow) > file_bytes - sizeof(BundleHeader)) {
    return fmt::format("it claims {} members, more than its {} bytes can hold", header.num_members,
                       file_bytes);
  }
  return header.num_members * sizeof(BundleRow);
}

std::variant<std::vector<BundleMember>, std::string> parse_index(std::span<const std::byte> head,
                                                                 std::uint64_t file_bytes) {
  if (index_checksum(head) != header_of(head).checksum) {
    return "the checksum of its index does not match";
  }
  std::vector<BundleMember> members(header_of(head).num_members);
  std::uint64_t end = head.size();
  for (std::size_t i = 0; i < members.size(); ++i) {
    BundleRow row;
    std::memcpy(&row, head.data() + sizeof(BundleHeader) + i * sizeof(row), sizeof(row));
    const bool ascending = i == 0 || members[i - 1].name < row.name;
    if (!ascending || !is_sound(row) || row.bytes > file_bytes - end) {
      return fmt::format("row {} of its index is not sound", i);
    }
    members[i] = {row.name, end, row.bytes, row.digest};
    end += row.bytes;
  }
  if (end != file_bytes) return fmt::format("it has {} bytes instead of {}", file_bytes, end);
  return members;
}

base::Digest index_checksum(std::span<const std::byte> head) {
  base::Sha256 hash;
  hash.update(head.first(kChecksumAt));
  hash.update(head.subspan(sizeof(BundleHeader)));
  return hash.finish();
}

}  // namespace attnjit::cache
