// Cache entries. The checksum is made to match, or no input would come past it.
#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "base/sha256.hpp"
#include "cache/entry.hpp"
#include "fuzz_target.hpp"

using namespace attnjit;

namespace {

constexpr std::size_t kChecksumOffset = 72;
constexpr std::size_t kHeaderBytes = 104;

void seal(std::vector<std::byte>& bytes) {
  if (bytes.size() < kHeaderBytes) return;
  base::Sha256 hash;
  hash.update(std::span(bytes).first(kChecksumOffset));
  hash.update(std::span(bytes).subspan(kHeaderBytes));
  const base::Digest digest = hash.finish();
  std::memcpy(bytes.data() + kChecksumOffset, digest.data(), digest.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto given = std::as_bytes(std::span(data, size));
  cache::decode(given);
  std::vector<std::byte> bytes(given.begin(), given.end());
  seal(bytes);
  const auto result = cache::decode(bytes);
  if (const auto* entry = std::get_if<cache::Entry>(&result)) {
    const auto again = cache::decode(cache::encode(*entry));
    const auto* same = std::get_if<cache::Entry>(&again);
    fuzz::require(same != nullptr && same->key == entry->key && same->arch == entry->arch &&
                      same->compiler_id == entry->compiler_id &&
                      same->meta_json == entry->meta_json && same->cubin == entry->cubin,
                  "what was decoded is encoded to the same");
  }
  return 0;
}
