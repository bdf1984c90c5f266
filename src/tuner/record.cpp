#include "tuner/record.hpp"

#include <fmt/format.h>

#include <cmath>
#include <tuple>
#include <utility>

#include "attnjit/error.hpp"
#include "base/fields_json.hpp"
#include "tuner/config_zero.hpp"

namespace attnjit::tuner {
namespace {

using base::Json;

constexpr int kSchema = 2;

template <class... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) {
  throw Error(ErrorKind::kCache,
              fmt::format("tuning record: {}", fmt::format(text, std::forward<Args>(args)...)));
}

template <class PlanKey>
PlanKey plan_key_of(const Json& object) {
  const auto key = base::from_json_value<PlanKey>(object, "key");
  const bool buckets = problem::length_bucket(key.bucket_q) == key.bucket_q &&
                       problem::length_bucket(key.bucket_kv) == key.bucket_kv &&
                       problem::plane_bucket(key.bucket_planes) == key.bucket_planes;
  if (!buckets) refuse("key: its buckets are none of this version's");
  return key;
}

double finite(const Json& object, const char* name) {
  const double value = object.at(name);
  if (!std::isfinite(value) || value < 0) refuse("{} is {}", name, object.at(name).dump());
  return value;
}

template <class PlanKey>
TunablesFor<PlanKey> config_of(const Json& object, const BasicTuneKey<PlanKey>& key) {
  const codegen::Arch& arch = codegen::find_arch(key.device.arch);
  const auto config = base::patched(config_zero(key.plan, arch),
                                    base::parse_patch<TunablesFor<PlanKey>>(object, "config"));
  const auto rule = codegen::why_unfit(config, key.plan.family, arch);
  if (rule) refuse("config: {}", *rule);
  return config;
}

template <class PlanKey>
BasicRecord<PlanKey> read(const Json& root) {
  BasicRecord<PlanKey> record;
  record.key = {.device = base::from_json_value<DeviceClass>(root.at("device"), "device"),
                .plan = plan_key_of<PlanKey>(root.at("key")),
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
  const Json& pass = root.at("pass");
  if (pass == Tuned<problem::PlanKey>::kPass) return read<problem::PlanKey>(root);
  if (pass == Tuned<problem::BackwardPlanKey>::kPass) return read<problem::BackwardPlanKey>(root);
  refuse("pass is {}; expected forward or backward", pass.dump());
}

}  // namespace

std::string describe(const DeviceClass& device) {
  return fmt::format("{} ({} SMs, {})", device.name, device.sm_count, device.arch);
}

template <class PlanKey>
std::string to_json(const BasicRecord<PlanKey>& record) {
  Json object = {{"schema", kSchema},
                 {"pass", Tuned<PlanKey>::kPass},
                 {"space", record.key.space},
                 {"device", base::to_json_value(record.key.device)},
                 {"key", base::to_json_value(record.key.plan)},
                 {"exact", record.exact},
                 {"config", base::to_json_value(record.config)}};
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
