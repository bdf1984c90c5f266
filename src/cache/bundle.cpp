#include "cache/bundle.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "cache/bundle_index.hpp"

namespace attnjit::cache {
namespace {

std::optional<MemberName> make_name(MemberKind kind, const base::Digest& digest,
                                    std::string_view arch) {
  MemberName name{.kind = kind, .digest = digest};
  if (arch.size() >= name.arch.size()) return std::nullopt;
  std::ranges::copy(arch, name.arch.begin());
  return name;
}

base::Digest digest_of(std::span<const std::byte> bytes) {
  base::Sha256 hash;
  hash.update(bytes);
  return hash.finish();
}

}  // namespace

std::string BundleMember::arch() const { return name.arch.data(); }

std::optional<MemberName> member_name(const KernelKey& key, std::string_view arch) {
  return make_name(MemberKind::kKernel, key.digest, arch);
}
std::optional<MemberName> member_name(const base::Digest& record, std::string_view arch) {
  return make_name(MemberKind::kRecord, record, arch);
}

std::variant<Bundle, std::string> Bundle::open(const std::filesystem::path& path) {
  auto opened = base::RandomAccessFile::open(path);
  if (auto* const reason = std::get_if<std::string>(&opened)) return std::move(*reason);
  auto& file = std::get<base::RandomAccessFile>(opened);
  constexpr const char* kUnread = "it cannot be read, or shrank while it was";
  const auto header = file.read(0, std::min<std::uint64_t>(file.size(), sizeof(BundleHeader)));
  if (!header) return kUnread;
  const auto length = index_bytes(*header, file.size());
  if (const auto* const reason = std::get_if<std::string>(&length)) return *reason;
  const auto head = file.read(0, sizeof(BundleHeader) + std::get<std::uint64_t>(length));
  if (!head) return kUnread;
  auto members = parse_index(*head, file.size());
  if (auto* const reason = std::get_if<std::string>(&members)) return std::move(*reason);
  return Bundle(path, std::move(file), std::get<std::vector<BundleMember>>(std::move(members)));
}

const BundleMember* Bundle::find(const MemberName& name) const {
  const auto found = std::ranges::lower_bound(members_, name, {}, &BundleMember::name);
  return found != members_.end() && found->name == name ? &*found : nullptr;
}

std::optional<std::vector<std::byte>> Bundle::read(const BundleMember& member) const {
  auto bytes = file_.read(member.offset, member.bytes);
  return bytes && digest_of(*bytes) == member.digest ? std::move(bytes) : std::nullopt;
}

std::variant<Entry, std::string> Bundle::kernel(const BundleMember& member) const {
  const auto bytes = read(member);
  if (!bytes) return "its bytes do not match the checksum in the index";
  auto decoded = decode(*bytes);
  if (auto* const rejection = std::get_if<Rejection>(&decoded)) return std::move(rejection->reason);
  auto& entry = std::get<Entry>(decoded);
  if (member_name(entry.key, entry.arch) != member.name) {
    return "it holds another kernel than the index says";
  }
  return std::move(entry);
}

std::optional<std::string> Bundle::record(const BundleMember& member) const {
  const auto bytes = read(member);
  if (!bytes) return std::nullopt;
  return std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size());
}

}  // namespace attnjit::cache
