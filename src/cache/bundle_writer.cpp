#include "cache/bundle_writer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "attnjit/error.hpp"
#include "cache/bundle.hpp"
#include "cache/bundle_index.hpp"

namespace attnjit::cache {
namespace {

namespace fs = std::filesystem;

constexpr unsigned kReadable = 0644;  // mode of the file, less the umask

template <class T>
void append(std::vector<std::byte>& bytes, const T& value) {
  bytes.resize(bytes.size() + sizeof(value));
  std::memcpy(bytes.data() + bytes.size() - sizeof(value), &value, sizeof(value));
}

[[noreturn]] void fail(const fs::path& path, std::string_view reason) {
  throw Error(ErrorKind::kCache,
              fmt::format("cannot write the bundle {}: {}; name a file in a directory that you can "
                          "write",
                          path.string(), reason));
}

}  // namespace

bool BundleWriter::add(const Entry& entry) {
  return add(member_name(entry.key, entry.arch), entry.arch, cache::encode(entry));
}

bool BundleWriter::add_record(const base::Digest& name, std::string_view arch,
                              std::string_view json) {
  if (json.size() > kMaxRecordBytes) {
    throw Error(ErrorKind::kCache,
                fmt::format("bundle: a tuning record has {} bytes; at most {} fit", json.size(),
                            kMaxRecordBytes));
  }
  const auto bytes = std::as_bytes(std::span(json));
  return add(member_name(name, arch), arch, {bytes.begin(), bytes.end()});
}

bool BundleWriter::add(std::optional<MemberName> name, std::string_view arch,
                       std::vector<std::byte> bytes) {
  if (!name) {
    throw Error(ErrorKind::kCache,
                fmt::format("bundle: \"{}\" is too long for the name of an architecture", arch));
  }
  if (members_.size() == kMaxMembers && !members_.contains(*name)) {
    throw Error(ErrorKind::kCache,
                fmt::format("bundle: more than {} members; write several bundles", kMaxMembers));
  }
  return members_.try_emplace(*name, std::move(bytes)).second;
}

std::size_t BundleWriter::count(MemberKind kind) const {
  return static_cast<std::size_t>(std::ranges::count_if(
      members_, [kind](const auto& each) { return each.first.kind == kind; }));
}

std::vector<std::byte> BundleWriter::encode() const {
  BundleHeader header;
  header.num_members = members_.size();
  std::vector<std::byte> bytes;
  append(bytes, header);
  for (const auto& [name, member] : members_) {
    base::Sha256 hash;
    hash.update(member);
    append(bytes, BundleRow{name, member.size(), hash.finish()});
  }
  header.checksum = index_checksum(bytes);
  std::memcpy(bytes.data(), &header, sizeof(header));
  for (const auto& [name, member] : members_) {
    bytes.insert(bytes.end(), member.begin(), member.end());
  }
  return bytes;
}

void BundleWriter::write(const fs::path& path) const {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(path, error);
  if (fs::exists(status) && !fs::is_regular_file(status)) fail(path, "it is not a regular file");
  const fs::path directory = path.has_parent_path() ? path.parent_path() : fs::path(".");
  base::WriteResult result = base::write_file_atomic(path, directory, encode(), kReadable);
  if (result.ok()) result = base::sync_directory(directory);
  if (!result.ok()) fail(path, result.message());
}

}  // namespace attnjit::cache
