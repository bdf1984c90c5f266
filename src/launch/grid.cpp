#include "launch/grid.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "attnjit/error.hpp"

namespace attnjit::launch {

// The best count for a number of rounds is the largest that fits them, or, where what combines the
// shares takes long, a half of that, a quarter, and so on. Each call that may split asks anew, so
// divisions are of 32 bits, which take a processor a third of the time.
std::int32_t choose_splits(std::int64_t blocks, std::int64_t tiles, std::int64_t slots,
                           const SplitCosts& costs) {
  constexpr std::uint32_t kRounds = 4, kMost = 1024;
  if (blocks == 0 || blocks > kRounds * slots) return 1;
  const auto num_blocks = static_cast<std::uint32_t>(blocks);
  // More tiles than that make no difference to the count.
  constexpr std::int64_t kMostTiles = std::numeric_limits<std::int32_t>::max();
  const auto num_tiles = static_cast<std::uint32_t>(std::min(tiles, kMostTiles));
  const auto num_slots = static_cast<std::uint32_t>(slots);
  const auto start = static_cast<std::uint32_t>(costs.start);
  const auto combine = static_cast<std::uint32_t>(costs.combine);
  const auto shares_per_tile = static_cast<std::uint32_t>(costs.shares_per_tile);
  const auto cost = [&](std::uint32_t splits) {
    const std::uint64_t rounds = (num_blocks * splits + num_slots - 1) / num_slots;
    const std::uint64_t tiles_each = (num_tiles + splits - 1) / splits + start;
    return rounds * tiles_each + (splits > 1 ? combine + splits / shares_per_tile : 0);
  };
  std::uint32_t best = 1;
  std::uint64_t least = cost(1);
  for (std::uint32_t r = 1; r <= kRounds; ++r) {
    std::uint32_t splits = std::min({r * num_slots / num_blocks, num_tiles, kMost});
    // Fewer shares are each as long as the best so far takes in all.
    for (; splits > 1 && least * splits > num_tiles; splits /= 2) {
      const std::uint64_t its_cost = cost(splits);
      if (its_cost >= least) continue;
      best = splits;
      least = its_cost;
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
