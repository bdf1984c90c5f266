#include "launch/grid.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "attnjit/error.hpp"

namespace attnjit::launch {

// The best count for a number of rounds is the largest that fits them, or, where what combines the
// shares takes long, a half of that, a quarter, and so on.
std::int32_t choose_splits(std::int64_t blocks, std::int64_t tiles, std::int64_t slots,
                           const SplitCosts& costs) {
  constexpr std::int64_t kRounds = 4, kMost = 1024;
  if (blocks == 0 || blocks > kRounds * slots) return 1;
  const auto rounds = [&](std::int64_t b) { return (b + slots - 1) / slots; };
  const auto cost = [&](std::int64_t splits) {
    const std::int64_t tiles_each = (tiles + splits - 1) / splits + costs.start;
    const std::int64_t combine = splits > 1 ? costs.combine + splits / costs.shares_per_tile : 0;
    return rounds(blocks * splits) * tiles_each + combine;
  };
  std::int64_t best = 1;
  for (std::int64_t r = 1; r <= kRounds; ++r) {
    for (auto splits = std::min({r * slots / blocks, tiles, kMost}); splits > 1; splits /= 2) {
      if (cost(splits) < cost(best)) best = splits;
    }
  }
  return static_cast<std::int32_t>(best);
}

std::int32_t choose_section(std::int64_t bytes, std::int64_t sharers, std::int64_t planes) {
  constexpr std::int64_t kSectionBytes = 16 << 20;
  const std::int64_t groups = kSectionBytes / std::max<std::int64_t>(bytes, 1);
  return static_cast<std::int32_t>(
      std::clamp<std::int64_t>(groups * sharers, 1, std::max<std::int64_t>(planes, 1)));
}

std::int32_t choose_sections(std::int64_t kv_head_bytes, std::int32_t kv_heads) {
  constexpr std::int64_t kSectionBytes = 24 << 20;
  std::int32_t sections = 1;
  while (sections < kv_heads &&
         (kv_heads % sections != 0 || kv_heads / sections * kv_head_bytes > kSectionBytes)) {
    ++sections;
  }
  return sections;
}

cuda::LaunchShape launch_shape(const StepSpec& step, std::int64_t blocks) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  if (blocks > kMost) {
    throw Error(ErrorKind::kInvalidProblem,
                fmt::format("{} needs {} thread blocks; at most {} fit a launch; split the batch",
                            step.source.entry, blocks, kMost));
  }
  return {{static_cast<unsigned>(blocks), 1, 1}, step.threads, step.shared_bytes, step.overlaps};
}

std::size_t align_up(std::size_t bytes) {
  return (bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
}

}  // namespace attnjit::launch
