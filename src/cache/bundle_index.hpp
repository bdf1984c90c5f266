#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "cache/bundle.hpp"

namespace attnjit::cache {

/// The bytes of the index that follows the header in `head`, the first sizeof(BundleHeader) bytes
/// of a file of `file_bytes`; or why it is no bundle.
std::variant<std::uint64_t, std::string> index_bytes(std::span<const std::byte> head,
                                                     std::uint64_t file_bytes);

/// The members that `head`, header and index of a file of `file_bytes`, lists: their order, names
/// and lengths are sound, and together they fill the file. Or why there are none.
std::variant<std::vector<BundleMember>, std::string> parse_index(std::span<const std::byte> head,
                                                                 std::uint64_t file_bytes);

/// The checksum that the header of `head` has to hold.
base::Digest index_checksum(std::span<const std::byte> head);

}  // namespace attnjit::cache
