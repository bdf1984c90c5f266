#include "tuner/record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "attnjit/error.hpp"
#include "codegen/config_rules.hpp"
#include "tuner/config_zero.hpp"
#include "tuner/family_fields.hpp"

namespace attnjit::tuner {
namespace {

using Json = nlohmann::ordered_json;
using problem::Extent;

constexpr int kSchema = 1;

template <class... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) {
  throw Error(ErrorKind::kCache,
              fmt::format("tuning record: {}", fmt::format(text, std::forward<Args>(args)...)));
}

template <class T>
struct Name {
  T value;
  const char* text;
};
constexpr Name<DType> kDtypes[] = {
    {DType::kFloat16, "fp16"}, {DType::kBFloat16, "bf16"}, {DType::kFloat32, "fp32"}};
constexpr Name<Extent> kExtents[] = {{Extent::kAbsent, "none"},
                                     {Extent::kPerQuery, "q1"},
                                     {Extent::kPerKey, "1k"},
                                     {Extent::kPerPair, "qk"}};

template <class T, std::size_t N>
Json name_of(const Name<T> (&names)[N], T value) {
  return std::ranges::find(names, value, &Name<T>::value)->text;
}
template <class T, std::size_t N>
void set_named(const Name<T> (&names)[N], const char* field, T& value, const Json& json) {
  const auto* found =
      std::ranges::find_if(names, [&](const Name<T>& name) { return json == name.text; });
  if (found == std::end(names)) refuse("family: {} is {}", field, json.dump());
  value = found->value;
}

Json field_json(std::int32_t value) { return value; }
Json field_json(bool value) { return value; }
Json field_json(DType value) { return name_of(kDtypes, value); }
Json field_json(Extent value) { return name_of(kExtents, value); }

void set_field(const char*, std::int32_t& field, const Json& json) { json.get_to(field); }
void set_field(const char*, bool& field, const Json& json) { json.get_to(field); }
void set_field(const char* name, DType& field, const Json& json) {
  set_named(kDtypes, name, field, json);
}
void set_field(const char* name, Extent& field, const Json& json) {
  set_named(kExtents, name, field, json);
}

Json family_json(const problem::Family& family) {
  Json object;
  for_each_field(family,
                 [&](const char* name, const auto& value) { object[name] = field_json(value); });
  return object;
}

problem::Family family_of(const Json& object) {
  problem::Family family;
  std::size_t known = 0;
  for_each_field(family, [&](const char* name, auto& field) {
    set_field(name, field, object.at(name));
    ++known;
  });
  if (object.size() != known) refuse("family: a member that this version does not know");
  return family;
}

problem::PlanKey plan_key_of(const Json& object) {
  const Json& bucket = object.at("bucket");
  problem::PlanKey key{family_of(object.at("family")),
                       bucket.at("q"),
                       bucket.at("kv"),
                       bucket.at("planes"),
                       object.at("mask_per_head"),
                       object.at("bias_per_head")};
  const bool buckets = problem::length_bucket(key.bucket_q) == key.bucket_q &&
                       problem::length_bucket(key.bucket_kv) == key.bucket_kv &&
                       problem::plane_bucket(key.bucket_planes) == key.bucket_planes;
  if (!buckets) refuse("bucket: {} is none of this version's", bucket.dump());
  return key;
}

double finite(const Json& object, const char* name) {
  const double value = object.at(name);
  if (!std::isfinite(value) || value < 0) refuse("{} is {}", name, object.at(name).dump());
  return value;
}

kernel::ForwardConfig config_of(const Json& object, const TuneKey& key) {
  const codegen::Arch& arch = codegen::find_arch(key.device.arch);
  kernel::ForwardConfig config = config_zero(key.plan, arch);
  codegen::update_from_json(config, object.dump());
  const auto rule = codegen::why_unfit(config, key.plan.family, arch);
  if (rule) refuse("config: {}", *rule);
  return config;
}

Record read(const Json& root) {
  if (root.at("schema") != kSchema) {
    refuse("schema is {}; this version reads {}", root["schema"].dump(), kSchema);
  }
  Record record;
  const Json& device = root.at("device");
  record.key = {.device = {.name = device.at("name"),
                           .sm_count = device.at("sm_count"),
                           .arch = device.at("arch"),
                           .l2_bytes = device.at("l2_bytes")},
                .plan = plan_key_of(root),
                .space = root.at("space")};
  root.at("exact").get_to(record.exact);
  record.config = config_of(root.at("config"), record.key);
  const Json& result = root.at("result");
  result.at("verdict").get_to(record.verdict);
  record.us = finite(result, "us");
  record.mad = finite(result, "mad");
  record.default_us = finite(result, "default_us");
  result.at("rounds").get_to(record.rounds);
  result.at("partial").get_to(record.partial);
  const Json& provenance = root.at("provenance");
  provenance.at("library").get_to(record.library);
  provenance.at("nvrtc").get_to(record.nvrtc);
  provenance.at("driver").get_to(record.driver);
  provenance.at("time").get_to(record.time);
  return record;
}

}  // namespace

std::string describe(const DeviceClass& device) {
  return fmt::format("{} ({} SMs, {})", device.name, device.sm_count, device.arch);
}

std::string to_json(const Record& record) {
  const DeviceClass& device = record.key.device;
  const problem::PlanKey& plan = record.key.plan;
  const Json object = {
      {"schema", kSchema},
      {"space", record.key.space},
      {"device",
       {{"name", device.name},
        {"sm_count", device.sm_count},
        {"arch", device.arch},
        {"l2_bytes", device.l2_bytes}}},
      {"family", family_json(plan.family)},
      {"bucket", {{"q", plan.bucket_q}, {"kv", plan.bucket_kv}, {"planes", plan.bucket_planes}}},
      {"mask_per_head", plan.mask_per_head},
      {"bias_per_head", plan.bias_per_head},
      {"exact", record.exact},
      {"config", Json::parse(codegen::to_json(record.config))},
      {"result",
       {{"verdict", record.verdict},
        {"us", record.us},
        {"mad", record.mad},
        {"default_us", record.default_us},
        {"gain", record.gain()},
        {"rounds", record.rounds},
        {"partial", record.partial}}},
      {"provenance",
       {{"library", record.library},
        {"nvrtc", record.nvrtc},
        {"driver", record.driver},
        {"time", record.time}}}};
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Record record_from_json(std::string_view text) try {
  return read(Json::parse(text));
} catch (const Json::exception& error) {
  refuse("{}", error.what());
} catch (const Error& error) {
  if (error.kind() == ErrorKind::kCache) throw;
  refuse("{}", error.what());  // a config or an architecture that this version does not know
}

const Record& better(const Record& a, const Record& b) {
  const auto rank = [](const Record& record) {
    const double noise = record.us > 0 ? record.mad / record.us : 1;
    return std::tuple(noise, -record.time, to_json(record));
  };
  return rank(b) < rank(a) ? b : a;
}

}  // namespace attnjit::tuner
