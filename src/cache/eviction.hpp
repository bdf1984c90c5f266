#pragma once
#include <chrono>
#include <cstdint>
#include <vector>

#include "base/file.hpp"
#include "cache/layout.hpp"

namespace attnjit::cache {

/// The files of entries tell their last use as exactly as this: a hit is noted once in it.
inline constexpr std::chrono::hours kUseInterval(1);

/// The size that a cache is kept below.
struct SizeLimits {
  std::uint64_t bytes = std::uint64_t{2} << 30;  ///< 0: there is no limit, of files either
  std::uint64_t files = 50'000;
};

/// The size of a cache's kernels.
struct Size {
  std::uint64_t bytes = 0;
  std::uint64_t files = 0;
};

Size size_of(const std::vector<StoredFile>& files);

bool exceeds(const Size& size, const SizeLimits& limits);

/// The files whose removal takes `files` from above `limits` to 80 % of them: the least recently
/// used ones, but none that was used in the hour before `now`. What is dated more than kUseInterval
/// after it was not used since its date was set, for a hit would have changed that, and goes first.
std::vector<StoredFile> choose_evicted(std::vector<StoredFile> files, const SizeLimits& limits,
                                       base::FileTime now);

}  // namespace attnjit::cache
