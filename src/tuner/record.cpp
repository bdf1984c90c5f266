#include "tuner/record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <type_traits>
#include <utility>

#include "attnjit/error.hpp"
#include "base/json.hpp"
#include "codegen/config_rules.hpp"
#include "tuner/backward_config_zero.hpp"
#include "tuner/config_zero.hpp"
#include "tuner/family_fields.hpp"

namespace attnjit::tuner {
namespace {

using base::Json;
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

template <class Family>
Json family_json(const Family& family) {
  Json object;
  for_each_field(family,
                 [&](const char* name, const auto& value) { object[name] = field_json(value); });
  return object;
}

template <class Family>
Family family_of(const Json& object) {
  Family family;
  std::size_t known = 0;
  for_each_field(family, [&](const char* name, auto& field) {
    set_field(name, field, object.at(name));
    ++known;
  });
  if (object.size() != known) refuse("family: a member that this version does not know");
  return family;
}

// Members of a key beside its family and buckets.
void add_rest(Json& object, const problem::PlanKey& key) {
  object["mask_per_head"] = key.mask_per_head;
  object["bias_per_head"] = key.bias_per_head;
}
void add_rest(Json&, const problem::BackwardPlanKey&) {}
void set_rest(problem::PlanKey& key, const Json& object) {
  object.at("mask_per_head").get_to(key.mask_per_head);
  object.at("bias_per_head").get_to(key.bias_per_head);
}
void set_rest(problem::BackwardPlanKey&, const Json&) {}

template <class PlanKey>
PlanKey plan_key_of(const Json& object) {
  const Json& bucket = object.at("bucket");
  PlanKey key;
  key.family = family_of<decltype(key.family)>(object.at("family"));
  bucket.at("q").get_to(key.bucket_q);
  bucket.at("kv").get_to(key.bucket_kv);
  bucket.at("planes").get_to(key.bucket_planes);
  set_rest(key, object);
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

template <class PlanKey>
ConfigFor<PlanKey> config_of(const Json& object, const BasicTuneKey<PlanKey>& key) {
  const codegen::Arch& arch = codegen::find_arch(key.device.arch);
  ConfigFor<PlanKey> config = config_zero(key.plan, arch);
  codegen::update_from_json(config, object.dump());
  const auto rule = codegen::why_unfit(config, key.plan.family, arch);
  if (rule) refuse("config: {}", *rule);
  return config;
}

template <class PlanKey>
BasicRecord<PlanKey> read(const Json& root) {
  BasicRecord<PlanKey> record;
  const Json& device = root.at("device");
  record.key = {.device = {.name = device.at("name"),
                           .sm_count = device.at("sm_count"),
                           .arch = device.at("arch"),
                           .l2_bytes = device.at("l2_bytes")},
                .plan = plan_key_of<PlanKey>(root),
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

AnyRecord read(const Json& root) {
  if (root.at("schema") != kSchema) {
    refuse("schema is {}; this version reads {}", root["schema"].dump(), kSchema);
  }
  const auto pass = root.find("pass");
  if (pass == root.end()) return read<problem::PlanKey>(root);
  if (*pass != kBackwardPass) refuse("pass is {}; expected {}", pass->dump(), kBackwardPass);
  return read<problem::BackwardPlanKey>(root);
}

}  // namespace

std::string describe(const DeviceClass& device) {
  return fmt::format("{} ({} SMs, {})", device.name, device.sm_count, device.arch);
}

template <class PlanKey>
std::string to_json(const BasicRecord<PlanKey>& record) {
  const DeviceClass& device = record.key.device;
  const PlanKey& plan = record.key.plan;
  Json object = {{"schema", kSchema}};
  if constexpr (std::is_same_v<PlanKey, problem::BackwardPlanKey>) object["pass"] = kBackwardPass;
  object["space"] = record.key.space;
  object["device"] = {{"name", device.name},
                      {"sm_count", device.sm_count},
                      {"arch", device.arch},
                      {"l2_bytes", device.l2_bytes}};
  object["family"] = family_json(plan.family);
  object["bucket"] = {{"q", plan.bucket_q}, {"kv", plan.bucket_kv}, {"planes", plan.bucket_planes}};
  add_rest(object, plan);
  object["exact"] = record.exact;
  object["config"] = base::parse_json(codegen::to_json(record.config));
  object["result"] = {{"verdict", record.verdict}, {"us", record.us},
                      {"mad", record.mad},         {"default_us", record.default_us},
                      {"gain", record.gain()},     {"rounds", record.rounds},
                      {"partial", record.partial}};
  object["provenance"] = {{"library", record.library},
                          {"nvrtc", record.nvrtc},
                          {"driver", record.driver},
                          {"time", record.time}};
  return base::dump_json(object);
}

const DeviceClass& device_of(const AnyRecord& record) {
  return std::visit([](const auto& each) -> const DeviceClass& { return each.key.device; }, record);
}

std::string to_json(const AnyRecord& record) {
  return std::visit([](const auto& each) { return to_json(each); }, record);
}

AnyRecord record_from_json(std::string_view text) try {
  return read(base::parse_json(text));
} catch (const Json::exception& error) {
  refuse("{}", error.what());
} catch (const Error& error) {
  if (error.kind() == ErrorKind::kCache) throw;
  refuse("{}", error.what());  // a config or an architecture that this version does not know
}

template <class PlanKey>
const BasicRecord<PlanKey>& better(const BasicRecord<PlanKey>& a, const BasicRecord<PlanKey>& b) {
  const auto rank = [](const BasicRecord<PlanKey>& record) {
    const double noise = record.us > 0 ? record.mad / record.us : 1;
    return std::tuple(noise, -record.time, to_json(record));
  };
  return rank(b) < rank(a) ? b : a;
}

template std::string to_json(const Record&);
template std::string to_json(const BackwardRecord&);
template const Record& better(const Record&, const Record&);
template const BackwardRecord& better(const BackwardRecord&, const BackwardRecord&);

}  // namespace attnjit::tuner
