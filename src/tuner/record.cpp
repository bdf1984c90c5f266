#include "tuner/record.hpp"

#include <fmt/format.h>

#include <tuple>
#include <utility>

#include "attnjit/error.hpp"
#include "base/fields_json.hpp"
#include "tuner/config_zero.hpp"
#include "tuner/contest.hpp"

namespace attnjit::tuner {
namespace {

using base::Json;

constexpr int kSchema = 3;
constexpr std::size_t kMaxDeviceName = 128;  // in the name of a directory, with other properties
constexpr double kLongestUs = 3.6e9;
constexpr int kMaxHeadDim = 256;
constexpr int kMaxGqaRatio = 1 << 20;

template <class... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) {
  throw Error(ErrorKind::kCache,
              fmt::format("tuning record: {}", fmt::format(text, std::forward<Args>(args)...)));
}

// The member `name` of `object`, which must be exactly a T.
template <class T>
T member(const Json& object, const char* name) {
  return base::from_json_value<T>(object.at(name), name);
}

DeviceClass device_of(const Json& root) {
  auto device = member<DeviceClass>(root, "device");
  if (device.name.empty() || device.name.size() > kMaxDeviceName) {
    refuse("device: name has {} bytes; expected 1 to {}", device.name.size(), kMaxDeviceName);
  }
  if (device.sm_count < 1) refuse("device: sm_count is {}; expected 1 or more", device.sm_count);
  return device;
}

// Of a family that a problem can have; what follows divides by these and multiplies them.
void expect_size(const char* name, int size, int most) {
  if (size < 1 || size > most) refuse("key: {} is {}; expected 1 to {}", name, size, most);
}

template <class PlanKey>
PlanKey plan_key_of(const Json& object) {
  const auto key = base::from_json_value<PlanKey>(object, "key");
  const auto is_bucket = [](std::int32_t length) {
    return problem::length_bucket(length) == length ||
           (length > problem::kMostInexact && length <= problem::kMostExact &&
            problem::short_length_bucket(length) == length);
  };
  const bool buckets = is_bucket(key.bucket_q) && is_bucket(key.bucket_kv) &&
                       problem::plane_bucket(key.bucket_planes) == key.bucket_planes;
  if (!buckets) refuse("key: its length buckets are not those of this version");
  const problem::Family& family = problem::scores(key);
  expect_size("head_dim", family.head_dim, kMaxHeadDim);
  expect_size("head_dim_v", family.head_dim_v, kMaxHeadDim);
  expect_size("gqa_ratio", family.gqa_ratio, kMaxGqaRatio);
  return key;
}

double microseconds(const Json& result, const char* name) {
  const auto time = member<double>(result, name);
  if (time <= 0 || time > kLongestUs) {
    base::refuse_json(name, result.at(name), "a time above 0, of an hour at most");
  }
  return time;
}

// Merging prefers the least noise, so that one that cannot be would win for ever.
double noise(const Json& result, double us) {
  const auto mad = member<double>(result, "mad");
  if (mad < kTimerStepUs || mad > us) {
    base::refuse_json("mad", result.at("mad"),
                      fmt::format("from {} to us, which is {}", kTimerStepUs, us));
  }
  return mad;
}

std::int64_t seconds_since_1970(const Json& provenance) {
  const auto time = member<std::int64_t>(provenance, "time");
  if (time < 0) base::refuse_json("time", provenance.at("time"), "seconds since 1970");
  return time;
}

std::string verdict(const Json& result) {
  const auto text = member<std::string>(result, "verdict");
  for (const Verdict kept : {Verdict::kGain, Verdict::kNoGain}) {
    if (text == name(kept)) return text;
  }
  base::refuse_json("verdict", text, "\"gain\" or \"no_gain\"");
}

template <class PlanKey>
TunablesFor<PlanKey> config_of(const Json& object, const BasicTuneKey<PlanKey>& key) {
  const codegen::Arch& arch = codegen::find_arch(key.device.arch);
  const auto config = base::patched(config_zero(key.plan, arch),
                                    base::parse_patch<TunablesFor<PlanKey>>(object, "config"));
  const auto rule = codegen::why_unfit(config, key.plan, arch);
  if (rule) refuse("config: {}", *rule);
  return config;
}

template <class PlanKey>
BasicRecord<PlanKey> read(const Json& root) {
  BasicRecord<PlanKey> record;
  record.key = {.device = device_of(root),
                .plan = plan_key_of<PlanKey>(root.at("key")),
                .space = member<std::string>(root, "space")};
  record.exact = member<std::string>(root, "exact");
  record.config = config_of(root.at("config"), record.key);
  const Json& result = root.at("result");
  record.verdict = verdict(result);
  record.us = microseconds(result, "us");
  record.mad = noise(result, record.us);
  record.default_us = microseconds(result, "default_us");
  record.rounds = member<int>(result, "rounds");
  record.partial = member<bool>(result, "partial");
  const Json& provenance = root.at("provenance");
  record.library = member<std::string>(provenance, "library");
  record.nvrtc = member<std::string>(provenance, "nvrtc");
  record.driver = member<int>(provenance, "driver");
  record.time = seconds_since_1970(provenance);
  return record;
}

// The members that a record begins with.
template <class PlanKey>
Json head(const BasicTuneKey<PlanKey>& key) {
  return {{"schema", kSchema},
          {"pass", Tuned<PlanKey>::kPass},
          {"space", key.space},
          {"device", base::to_json_value(key.device)},
          {"key", base::to_json_value(key.plan)}};
}

AnyRecord read(const Json& root) {
  if (root.at("schema") != kSchema) {
    refuse("schema is {}; this version reads {}", base::show_json(root["schema"]), kSchema);
  }
  const Json& pass = root.at("pass");
  if (pass == Tuned<problem::PlanKey>::kPass) return read<problem::PlanKey>(root);
  if (pass == Tuned<problem::BackwardPlanKey>::kPass) return read<problem::BackwardPlanKey>(root);
  refuse("pass is {}; expected forward or backward", base::show_json(pass));
}

}  // namespace

std::string describe(const DeviceClass& device) {
  return fmt::format("{} ({} SMs, {})", device.name, device.sm_count, device.arch);
}

template <class PlanKey>
std::string to_json(const BasicRecord<PlanKey>& record) {
  Json object = head(record.key);
  object["exact"] = record.exact;
  object["config"] = base::to_json_value(record.config);
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

template <class PlanKey>
std::string beginning_of_line(const BasicTuneKey<PlanKey>& key) {
  std::string text = base::dump_json(head(key));
  text.back() = ',';  // in the place of '}': more members follow
  return text;
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
  refuse("a member is missing or of another type: {}", error.what());
} catch (const Error& error) {
  if (error.kind() == ErrorKind::kCache) throw;
  refuse("{}", error.what());  // a config or an architecture that this version does not know
}

template <class PlanKey>
const BasicRecord<PlanKey>& better(const BasicRecord<PlanKey>& a, const BasicRecord<PlanKey>& b) {
  const auto rank = [](const BasicRecord<PlanKey>& record) {
    return std::tuple(record.mad / record.us, -record.time, to_json(record));
  };
  return rank(b) < rank(a) ? b : a;
}

template std::string to_json(const Record&);
template std::string to_json(const BackwardRecord&);
template std::string beginning_of_line(const TuneKey&);
template std::string beginning_of_line(const BackwardTuneKey&);
template const Record& better(const Record&, const Record&);
template const BackwardRecord& better(const BackwardRecord&, const BackwardRecord&);

}  // namespace attnjit::tuner
