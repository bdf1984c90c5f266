#include "cache/eviction.hpp"

#include <algorithm>
#include <chrono>

namespace attnjit::cache {
namespace {

/// The age up to which a file may have been used in the last hour.
constexpr std::chrono::hours kYoung = std::chrono::hours(1) + kUseInterval;

SizeLimits four_fifths(const SizeLimits& limits) {
  return {limits.bytes - limits.bytes / 5, limits.files - limits.files / 5};
}

}  // namespace

Size size_of(const std::vector<StoredFile>& files) {
  Size size{0, files.size()};
  for (const StoredFile& file : files) size.bytes += file.bytes;
  return size;
}

bool exceeds(const Size& size, const SizeLimits& limits) {
  return limits.bytes != 0 && (size.bytes > limits.bytes || size.files > limits.files);
}

std::vector<StoredFile> choose_evicted(std::vector<StoredFile> files, const SizeLimits& limits,
                                       base::FileTime now) {
  Size left = size_of(files);
  std::vector<StoredFile> evicted;
  if (!exceeds(left, limits)) return evicted;
  const SizeLimits target = four_fifths(limits);
  for (StoredFile& file : files) {
    if (file.used > now + kUseInterval) file.used = base::FileTime::min();
  }
  std::ranges::sort(files, {}, &StoredFile::used);
  for (StoredFile& file : files) {
    if (!exceeds(left, target) || file.used > now - kYoung) break;
    left.bytes -= file.bytes;
    --left.files;
    evicted.push_back(std::move(file));
  }
  return evicted;
}

}  // namespace attnjit::cache
