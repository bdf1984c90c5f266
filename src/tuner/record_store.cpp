#include "tuner/record_store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <span>
#include <system_error>
#include <utility>

#include "attnjit/error.hpp"
#include "base/file.hpp"
#include "cache/file_lock.hpp"
#include "cache/layout.hpp"
#include "tuner/neighbours.hpp"

namespace attnjit::tuner {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxRecordBytes = 64 * 1024;
constexpr std::chrono::seconds kLockBudget(1);  // to write a small file takes milliseconds
constexpr std::string_view kBundled = "a tuning record of a bundle";

// `any` where it is the record of `key`.
template <class PlanKey>
std::optional<BasicRecord<PlanKey>> record_of(const BasicTuneKey<PlanKey>& key,
                                              const std::optional<AnyRecord>& any) {
  const auto* record = any ? std::get_if<BasicRecord<PlanKey>>(&*any) : nullptr;
  return record != nullptr && record->key == key ? std::optional(*record) : std::nullopt;
}

}  // namespace

RecordStore::RecordStore(std::optional<fs::path> root, fs::path lock_directory, base::Log& log,
                         const cache::BundlePath* bundles, std::string_view shipped)
    : root_(std::move(root), log),
      lock_directory_(std::move(lock_directory)),
      log_(log),
      bundles_(bundles),
      shipped_(shipped) {}

RecordStore::Parsed RecordStore::parse(std::string_view text) try {
  if (text.size() > kMaxRecordBytes) {
    return fmt::format("tuning record: it has {} bytes; expected at most {}", text.size(),
                       kMaxRecordBytes);
  }
  return record_from_json(text);
} catch (const Error& error) {
  return error.what();
}

RecordStore::Parsed RecordStore::inspect(const fs::path& path) const {
  const auto bytes = base::read_private_file(path, kMaxRecordBytes);
  if (!bytes) return "it is not a small regular file that only you can write";
  Parsed parsed = parse({reinterpret_cast<const char*>(bytes->data()), bytes->size()});
  if (const auto* const record = std::get_if<AnyRecord>(&parsed)) {
    const fs::path own = std::visit([](const auto& each) { return place(each.key); }, *record);
    if (root_.version_directory() / own != path) {
      return "it holds another record than its name says";
    }
  }
  return parsed;
}

std::optional<AnyRecord> RecordStore::read(const fs::path& path) const {
  std::error_code error;
  if (!fs::exists(fs::symlink_status(path, error))) return std::nullopt;
  return usable(inspect(path), path.string());
}

std::optional<AnyRecord> RecordStore::usable(Parsed parsed, std::string_view where) const {
  if (AnyRecord* const record = std::get_if<AnyRecord>(&parsed)) return std::move(*record);
  log_.info("{} is not used: {}", where, std::get<std::string>(parsed));
  return std::nullopt;
}

std::optional<std::string> RecordStore::why_unreadable(std::string_view text) const {
  const Parsed parsed = parse(text);
  const auto* const why = std::get_if<std::string>(&parsed);
  if (why == nullptr) return std::nullopt;
  log_.warning("{}; it is kept in memory only", *why);
  return *why;
}

template <class PlanKey>
std::optional<AnyRecord> RecordStore::find_bundled(const BasicTuneKey<PlanKey>& key) const {
  if (bundles_ == nullptr) return std::nullopt;
  const auto text = bundles_->find_record(id(key), key.device.arch);
  return text ? usable(parse(*text), kBundled) : std::nullopt;
}

template <class PlanKey>
std::optional<BasicRecord<PlanKey>> RecordStore::find_exact(
    const BasicTuneKey<PlanKey>& key) const {
  if (auto record = recall(key)) return record;
  if (root_.trusted()) {
    if (auto record = record_of(key, read(root_.version_directory() / place(key)))) return record;
  }
  if (auto record = record_of(key, find_bundled(key))) return record;
  return shipped_.find(key, log_);
}

template <class PlanKey>
std::optional<BasicRecordMatch<PlanKey>> RecordStore::find(const BasicTuneKey<PlanKey>& key) const {
  if (auto record = find_exact(key)) return BasicRecordMatch<PlanKey>{*std::move(record), true};
  for (const PlanKey& plan : neighbours(key.plan)) {
    if (auto record = find_exact(BasicTuneKey<PlanKey>{key.device, plan, key.space})) {
      return BasicRecordMatch<PlanKey>{*std::move(record), false};
    }
  }
  return std::nullopt;
}

template <class PlanKey>
std::optional<BasicRecord<PlanKey>> RecordStore::recall(const BasicTuneKey<PlanKey>& key) const {
  Memory& memory = *memory_;
  const std::scoped_lock lock(memory.mutex);
  const auto& remembered = std::get<Remembered<PlanKey>>(memory.records);
  const auto found = remembered.find(key);
  return found == remembered.end() ? std::nullopt : std::optional(found->second);
}

template <class PlanKey>
void RecordStore::remember(const BasicRecord<PlanKey>& record) {
  Memory& memory = *memory_;
  const std::scoped_lock lock(memory.mutex);
  std::get<Remembered<PlanKey>>(memory.records).insert_or_assign(record.key, record);
}

template <class PlanKey>
std::optional<std::string> RecordStore::publish(
    const BasicRecord<PlanKey>& record, const std::optional<BasicRecord<PlanKey>>& superseded) {
  remember(record);
  if (const auto why = root_.why_unused()) return why;
  const std::string text = to_json(record) + '\n';
  if (const auto why = why_unreadable(text)) return why;
  const cache::FileLock lock(lock_directory_ / cache::lock_name(root_.digest(), id(record.key)),
                             kLockBudget, log_);
  const fs::path path = root_.version_directory() / place(record.key);
  const auto present = record_of(record.key, read(path));
  const bool known = present && superseded && to_json(*present) == to_json(*superseded);
  if (present && !known && &better(*present, record) == &*present) {
    remember(*present);
    return std::nullopt;
  }
  return root_.write(path, std::as_bytes(std::span(text)));
}

std::vector<fs::path> RecordStore::files() const {
  std::vector<fs::path> files;
  if (!root_.trusted()) return files;
  for (const fs::path& device : cache::children(root_.version_directory() / "t")) {
    for (const fs::path& family : cache::children(device)) {
      std::ranges::copy(cache::children(family), std::back_inserter(files));
    }
  }
  return files;
}

std::vector<AnyRecord> RecordStore::list() const {
  std::vector<AnyRecord> records;
  for (const fs::path& path : files()) {
    if (auto record = read(path)) records.push_back(*std::move(record));
  }
  return records;
}

std::vector<AnyRecord> RecordStore::list_bundled() const {
  std::vector<AnyRecord> records;
  if (bundles_ == nullptr) return records;
  for (const std::string& text : bundles_->records()) {
    if (auto record = usable(parse(text), kBundled)) records.push_back(*std::move(record));
  }
  return records;
}

std::vector<AnyRecord> RecordStore::list_shipped() const { return shipped_.list(log_); }

std::vector<cache::BadEntry> RecordStore::verify() const {
  std::vector<cache::BadEntry> bad;
  for (const fs::path& path : files()) {
    const auto result = inspect(path);
    if (const auto* why = std::get_if<std::string>(&result)) bad.push_back({path, *why});
  }
  return bad;
}

template std::optional<BasicRecordMatch<problem::PlanKey>> RecordStore::find(
    const BasicTuneKey<problem::PlanKey>&) const;
template std::optional<BasicRecord<problem::PlanKey>> RecordStore::find_exact(
    const BasicTuneKey<problem::PlanKey>&) const;
template std::optional<BasicRecord<problem::PlanKey>> RecordStore::recall(
    const BasicTuneKey<problem::PlanKey>&) const;
template void RecordStore::remember(const BasicRecord<problem::PlanKey>&);
template std::optional<std::string> RecordStore::publish(
    const BasicRecord<problem::PlanKey>&, const std::optional<BasicRecord<problem::PlanKey>>&);
template std::optional<BasicRecordMatch<problem::BackwardPlanKey>> RecordStore::find(
    const BasicTuneKey<problem::BackwardPlanKey>&) const;
template std::optional<BasicRecord<problem::BackwardPlanKey>> RecordStore::find_exact(
    const BasicTuneKey<problem::BackwardPlanKey>&) const;
template std::optional<BasicRecord<problem::BackwardPlanKey>> RecordStore::recall(
    const BasicTuneKey<problem::BackwardPlanKey>&) const;
template void RecordStore::remember(const BasicRecord<problem::BackwardPlanKey>&);
template std::optional<std::string> RecordStore::publish(
    const BasicRecord<problem::BackwardPlanKey>&,
    const std::optional<BasicRecord<problem::BackwardPlanKey>>&);

}  // namespace attnjit::tuner
