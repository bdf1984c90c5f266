#include "cache/key.hpp"

#include <algorithm>
#include <vector>

namespace attnjit::cache {
namespace {

// Raise it when a kernel of the same source and options would have to be compiled differently.
constexpr int kSchema = 1;

}  // namespace

KernelKey make_key(std::string_view source, std::string_view entry_name, std::string_view arch,
                   std::span<const std::string> options) {
  std::vector<std::string_view> sorted(options.begin(), options.end());
  std::ranges::sort(sorted);
  base::TaggedHash hash;
  hash.field("schema", kSchema).field("source", source).field("entry", entry_name);
  hash.field("arch", arch);
  for (const std::string_view option : sorted) hash.field("option", option);
  return {hash.digest()};
}

}  // namespace attnjit::cache
