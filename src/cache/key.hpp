#pragma once
#include <compare>
#include <span>
#include <string>
#include <string_view>

#include "base/sha256.hpp"

namespace attnjit::cache {

/// Names a kernel by everything that decides its code, except the compiler's version.
struct KernelKey {
  base::Digest digest{};

  /// 64 hexadecimal digits.
  std::string text() const { return base::hex(digest); }
  auto operator<=>(const KernelKey&) const = default;
};

/// `source` is the whole text that is compiled and `arch` carries its suffix ("sm_90a"). The order
/// of `options` does not matter; leave out those that only report (ptxas -v), or kernels are built
/// again for nothing.
KernelKey make_key(std::string_view source, std::string_view entry_name, std::string_view arch,
                   std::span<const std::string> options);

}  // namespace attnjit::cache
