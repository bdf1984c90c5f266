// Indexes of bundles. The checksum is made to match, or no input would come past it.
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include "cache/bundle_index.hpp"
#include "fuzz_target.hpp"

using namespace attnjit;
using cache::BundleHeader;

namespace {

void check_members(const std::vector<cache::BundleMember>& members, std::uint64_t begin,
                   std::uint64_t end) {
  for (std::size_t i = 0; i < members.size(); ++i) {
    fuzz::require(members[i].offset == begin, "members follow each other");
    fuzz::require(members[i].bytes > 0 && members[i].bytes <= end - begin,
                  "members are in the file");
    fuzz::require(!members[i].arch().empty(), "members name an architecture");
    fuzz::require(i == 0 || members[i - 1].name < members[i].name, "names ascend");
    begin += members[i].bytes;
  }
  fuzz::require(begin == end, "members fill the file");
}

/// Reads `bytes` as a file; with `seal`, after its checksum was made to match.
void read(std::vector<std::byte> bytes, bool seal) {
  const auto length = cache::index_bytes(bytes, bytes.size());
  const auto* const index = std::get_if<std::uint64_t>(&length);
  if (index == nullptr) return;
  fuzz::require(*index <= bytes.size() - sizeof(BundleHeader), "the index is in the file");
  const auto head = std::span(bytes).first(sizeof(BundleHeader) + *index);
  if (seal) {
    const base::Digest checksum = cache::index_checksum(head);
    std::memcpy(head.data() + offsetof(BundleHeader, checksum), checksum.data(), checksum.size());
  }
  const auto parsed = cache::parse_index(head, bytes.size());
  if (const auto* const members = std::get_if<std::vector<cache::BundleMember>>(&parsed)) {
    check_members(*members, head.size(), bytes.size());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto given = std::as_bytes(std::span(data, size));
  read({given.begin(), given.end()}, false);
  read({given.begin(), given.end()}, true);
  return 0;
}
