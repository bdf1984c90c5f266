#include "tuner/record_store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <span>
#include <utility>

#include "attnjit/error.hpp"
#include "base/file.hpp"
#include "base/sha256.hpp"
#include "cache/directory.hpp"
#include "cache/layout.hpp"
#include "tuner/family_fields.hpp"
#include "tuner/neighbours.hpp"

namespace attnjit::tuner {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxRecordBytes = 64 * 1024;
constexpr std::size_t kDigits = 16;  // of a hash in a file name

// Lower-case letters and digits, with dashes for all else.
std::string slug(std::string_view text) {
  std::string result;
  for (const char c : text) {
    const auto letter = static_cast<unsigned char>(c);
    result += std::isalnum(letter) != 0 ? static_cast<char>(std::tolower(letter)) : '-';
  }
  return result;
}

std::string device_directory(const DeviceClass& device) {
  return fmt::format("{}.{}sm.{}.{}m", slug(device.name), device.sm_count, device.arch,
                     device.l2_bytes >> 20);
}

// Records of two search spaces do not overwrite each other.
std::string family_directory(const TuneKey& key) {
  base::TaggedHash hash;
  hash.field("space", key.space);
  for_each_field(key.plan.family, [&](const char* name, const auto& value) {
    hash.field(name, static_cast<std::int64_t>(value));
  });
  hash.field("mask_per_head", std::int64_t{key.plan.mask_per_head});
  hash.field("bias_per_head", std::int64_t{key.plan.bias_per_head});
  return base::hex(hash.digest()).substr(0, kDigits);
}

}  // namespace

RecordStore::RecordStore(std::optional<fs::path> root, base::Log& log)
    : root_(std::move(root)), log_(log) {}

fs::path RecordStore::place(const TuneKey& key) {
  return fs::path("t") / device_directory(key.device) / family_directory(key) /
         fmt::format("q{}.kv{}.p{}.json", key.plan.bucket_q, key.plan.bucket_kv,
                     key.plan.bucket_planes);
}

fs::path RecordStore::directory() const { return cache::version_directory(*root_); }

// The kernels' store has the same root and says in the log what is wrong with it.
bool RecordStore::trusted() const { return root_ && !cache::why_untrusted(*root_); }

std::optional<Record> RecordStore::read(const fs::path& path) const {
  const auto bytes = base::read_private_file(path, kMaxRecordBytes);
  if (!bytes) return std::nullopt;
  try {
    Record record = record_from_json({reinterpret_cast<const char*>(bytes->data()), bytes->size()});
    if (directory() / place(record.key) == path) return record;
    log_.info("{} is not used: it holds another record than its name says", path.string());
  } catch (const Error& error) {
    log_.info("{} is not used: {}", path.string(), error.what());
  }
  return std::nullopt;
}

std::optional<Record> RecordStore::find_exact(const TuneKey& key) const {
  if (auto record = recall(key)) return record;
  if (!trusted()) return std::nullopt;
  auto record = read(directory() / place(key));
  return record && record->key == key ? std::move(record) : std::nullopt;
}

std::optional<RecordMatch> RecordStore::find(const TuneKey& key) const {
  if (auto record = find_exact(key)) return RecordMatch{*std::move(record), true};
  for (const problem::PlanKey& plan : neighbours(key.plan)) {
    if (auto record = find_exact({key.device, plan, key.space})) {
      return RecordMatch{*std::move(record), false};
    }
  }
  return std::nullopt;
}

std::optional<Record> RecordStore::recall(const TuneKey& key) const {
  const std::scoped_lock lock(mutex_);
  const auto found = remembered_.find(key);
  return found == remembered_.end() ? std::nullopt : std::optional(found->second);
}

void RecordStore::remember(const Record& record) {
  const std::scoped_lock lock(mutex_);
  remembered_.insert_or_assign(record.key, record);
}

void RecordStore::publish(const Record& record) {
  remember(record);
  if (!trusted()) return;
  const fs::path path = directory() / place(record.key);
  const fs::path temporary = directory() / "tmp";
  for (const fs::path& needed : {path.parent_path(), temporary}) {
    cache::make_private_directories(needed);  // what fails here fails the write below
  }
  const std::string text = to_json(record) + '\n';
  const base::WriteResult result =
      base::write_file_atomic(path, temporary, std::as_bytes(std::span(text)));
  if (result.ok()) return;
  log_.warn_once("record write",
                 fmt::format("cannot keep a tuning record in {} ({}); it is used in this process "
                             "only",
                             path.string(), result.message()));
}

std::vector<Record> RecordStore::list() const {
  std::vector<Record> records;
  if (!trusted()) return records;
  for (const fs::path& device : cache::children(directory() / "t")) {
    for (const fs::path& family : cache::children(device)) {
      for (const fs::path& path : cache::children(family)) {
        if (auto record = read(path)) records.push_back(*std::move(record));
      }
    }
  }
  return records;
}

}  // namespace attnjit::tuner
