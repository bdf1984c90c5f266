// Manifests: documents and lines.
#include <algorithm>

#include "cli/input/manifest.hpp"
#include "fuzz_target.hpp"

using namespace attnjit;

namespace {

constexpr std::size_t kMostCases = 64;  // of an input; what follows from one case is enough

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  cli::Manifest manifest;
  fuzz::expect_error_or_value(
      [&] { manifest = cli::parse_manifest(fuzz::text(data, size), "manifest"); });
  for (std::size_t i = 0; i < std::min(manifest.cases.size(), kMostCases); ++i) {
    fuzz::expect_error_or_value([&] {
      cli::is_empty(manifest.cases[i].spec);
      cli::tensor_bytes(manifest.cases[i].spec);
    });
  }
  return 0;
}
