// The names of records: of their files, and in bundles.
#include <fmt/format.h>

#include <cctype>

#include "base/fields_json.hpp"
#include "base/sha256.hpp"
#include "tuner/record_store.hpp"

namespace attnjit::tuner {
namespace {

namespace fs = std::filesystem;

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
template <class PlanKey>
std::string family_directory(const BasicTuneKey<PlanKey>& key) {
  base::TaggedHash hash;
  hash.field("pass", Tuned<PlanKey>::kPass);
  hash.field("space", key.space);
  base::for_each_leaf(key.plan, [&](const char* name, const auto& value) {
    if (std::string_view(name).starts_with("bucket_")) return;  // the file's name has these
    if constexpr (base::HasText<std::remove_cvref_t<decltype(value)>>) {
      if (!value.text().empty()) hash.field(name, value.text());
    } else {
      hash.field(name, static_cast<std::int64_t>(value));
    }
  });
  return base::hex(hash.digest()).substr(0, kDigits);
}

}  // namespace

template <class PlanKey>
fs::path RecordStore::place(const BasicTuneKey<PlanKey>& key) {
  return fs::path("t") / device_directory(key.device) / family_directory(key) /
         fmt::format("q{}.kv{}.p{}.json", key.plan.bucket_q, key.plan.bucket_kv,
                     key.plan.bucket_planes);
}

template <class PlanKey>
base::Digest RecordStore::id(const BasicTuneKey<PlanKey>& key) {
  return base::sha256(place(key).generic_string());
}

template fs::path RecordStore::place(const BasicTuneKey<problem::PlanKey>&);
template base::Digest RecordStore::id(const BasicTuneKey<problem::PlanKey>&);
template fs::path RecordStore::place(const BasicTuneKey<problem::BackwardPlanKey>&);
template base::Digest RecordStore::id(const BasicTuneKey<problem::BackwardPlanKey>&);

}  // namespace attnjit::tuner
