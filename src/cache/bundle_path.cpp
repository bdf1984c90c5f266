#include "cache/bundle_path.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cache/directory.hpp"
#include "cache/layout.hpp"

namespace attnjit::cache {
namespace {

namespace fs = std::filesystem;

constexpr const char* kBundleSuffix = ".atkb";

}  // namespace

BundlePath::BundlePath(const std::vector<fs::path>& named, base::Log& log) : log_(log) {
  for (const fs::path& name : named) {
    const fs::path path = normal_form(name);
    std::error_code error;
    if (fs::is_directory(fs::symlink_status(path, error))) {
      open_all(path);
    } else {
      open(path);
    }
  }
}

void BundlePath::open_all(const fs::path& directory) {
  if (const auto rule = why_untrusted(directory)) return refuse(directory, *rule);
  std::vector<fs::path> files = children(directory);
  std::erase_if(files, [](const fs::path& file) { return file.extension() != kBundleSuffix; });
  if (files.empty()) {
    return refuse(directory, fmt::format("it holds no *{} file that can be seen", kBundleSuffix));
  }
  for (const fs::path& file : files) open(file);
}

void BundlePath::open(const fs::path& path) {
  auto opened = Bundle::open(path);
  if (auto* const reason = std::get_if<std::string>(&opened)) {
    return refuse(path, std::move(*reason));
  }
  bundles_.push_back(std::get<Bundle>(std::move(opened)));
}

void BundlePath::refuse(const fs::path& path, std::string reason) {
  log_.warning("ATTNJIT_BUNDLE_PATH: {} is not used: {}; kernels and records come from elsewhere",
               path.string(), reason);
  refused_.push_back({path, std::move(reason)});
}

std::optional<Entry> BundlePath::find(const KernelKey& key, std::string_view arch) const {
  const auto name = member_name(key, arch);
  if (!name) return std::nullopt;
  for (const Bundle& bundle : bundles_) {
    const BundleMember* const member = bundle.find(*name);
    if (member == nullptr) continue;
    auto kernel = bundle.kernel(*member);
    if (Entry* const entry = std::get_if<Entry>(&kernel)) return std::move(*entry);
    note_damage(bundle, *member, std::get<std::string>(kernel));
  }
  return std::nullopt;
}

std::optional<fs::path> BundlePath::locate(const KernelKey& key, std::string_view arch) const {
  const auto name = member_name(key, arch);
  if (!name) return std::nullopt;
  const auto holds = [&](const Bundle& bundle) { return bundle.find(*name) != nullptr; };
  const auto found = std::ranges::find_if(bundles_, holds);
  return found == bundles_.end() ? std::nullopt : std::optional(found->path());
}

std::optional<std::string> BundlePath::find_record(const base::Digest& digest,
                                                   std::string_view arch) const {
  const auto name = member_name(digest, arch);
  if (!name) return std::nullopt;
  for (const Bundle& bundle : bundles_) {
    const BundleMember* const member = bundle.find(*name);
    if (member == nullptr) continue;
    if (auto text = record(bundle, *member)) return text;
  }
  return std::nullopt;
}

std::vector<std::string> BundlePath::records() const {
  std::vector<std::string> texts;
  for (const Bundle& bundle : bundles_) {
    for (const BundleMember& member : bundle.members()) {
      if (member.name.kind != MemberKind::kRecord) continue;
      if (auto text = record(bundle, member)) texts.push_back(*std::move(text));
    }
  }
  return texts;
}

std::optional<std::string> BundlePath::record(const Bundle& bundle,
                                              const BundleMember& member) const {
  auto text = bundle.record(member);
  if (!text) note_damage(bundle, member, "its bytes do not match the checksum in the index");
  return text;
}

void BundlePath::note_damage(const Bundle& bundle, const BundleMember& member,
                             const std::string& reason) const {
  ++corrupt_;
  const std::string what =
      fmt::format("{} {} for {} in the bundle {}",
                  member.name.kind == MemberKind::kKernel ? "kernel" : "tuning record",
                  base::hex(member.name.digest), member.arch(), bundle.path().string());
  log_.warn_once(what, fmt::format("{} is not used: {}; install the bundle again", what, reason));
}

}  // namespace attnjit::cache
