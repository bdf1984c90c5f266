#pragma once
#include <fmt/format.h>

#include <concepts>
#include <optional>
#include <string>

#include "base/fields.hpp"
#include "codegen/arch.hpp"
#include "codegen/kernel_configs.hpp"

namespace attnjit::codegen {

/// The rule that a configuration breaks, as a sentence; nothing where it breaks none.
using Rule = std::optional<std::string>;

/// Why the first keys cannot store dq for others to add to, as the rest of a sentence: they must
/// not be passed over, but a mask may leave them out, and faulty lengths of packed sequences as
/// well.
Rule why_no_first_keys(const problem::Family& family);

/// Why the kernel of dk and dv of Path::kWgmma does not write the tiles of dS to dbias itself.
Rule why_no_stored_tiles(const problem::BackwardFamily& family);

/// Why that kernel does not keep planes of dS apart, for another to add up or to convert.
Rule why_no_per_plane(const problem::BackwardFamily& family);

/// The rule of a kernel's own config, or of the shared memory that `arch` has.
template <class Config>
Rule why_invalid(const Config& config, int shared_bytes, const Arch& arch) {
  if (const char* rule = kernel::why_invalid(config)) return rule;
  if (shared_bytes > arch.shared_bytes_per_block) {
    return fmt::format("needs {} bytes of shared memory; {} has {} per thread block", shared_bytes,
                       arch.name, arch.shared_bytes_per_block);
  }
  return std::nullopt;
}

/// The rule of numbers: their products fit into an int. Those of a kernel are much stricter.
template <class Tunables>
Rule why_out_of_range(const Tunables& tunables) {
  constexpr int kMost = 1024;
  Rule rule;
  base::for_each_leaf(tunables, [&]<class Member>(const char* name, const Member& member) {
    if constexpr (std::same_as<Member, int>) {
      if (member >= 0 && member <= kMost) return;
      rule = fmt::format("{} is {}; expected 0 to {}", name, member, kMost);
    }
  });
  return rule;
}

/// The rule of a path that holds planes of so many rows and keys.
template <class PlanKey>
Rule why_longer_than(int rows, int keys, const PlanKey& key, Path path) {
  if (key.bucket_q <= rows && key.bucket_kv <= keys) return std::nullopt;
  return fmt::format(
      "path: {} holds at most {} rows and {} keys, and the problem may have {} and {}; use mma or "
      "wgmma",
      base::word(path), rows, keys, key.bucket_q, key.bucket_kv);
}

/// The rule of members that a tile's path has not, see lacks().
template <base::HasTag Tile>
Rule why_lacking(const Tile& tile) {
  Rule rule;
  base::kFields<Tile>.apply([&](const auto&... field) {
    const auto check = [&](const auto& f) {
      if (!lacks(tile, f.name) || tile.*(f.member) == Tile{}.*(f.member)) return;
      rule = fmt::format("{}: path {} has no such member", f.name, base::word(tile.path));
    };
    (check(field), ...);
  });
  return rule;
}

}  // namespace attnjit::codegen
