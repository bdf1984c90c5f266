#include "codegen/config_json.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <set>

#include "attnjit/error.hpp"
#include "base/json.hpp"
#include "codegen/fields.hpp"
#include "codegen/render.hpp"

namespace attnjit::codegen {
namespace {

std::string flag_text(const char* name, const base::Json& value) {
  return fmt::format("config: {} cannot be {}", name, value.dump());
}

void set_field(const char* name, int& field, const base::Json& value) {
  if (!value.is_number_integer()) {
    throw Error(ErrorKind::kInvalidEnvironment, flag_text(name, value) + "; expected an integer");
  }
  const auto wide = value.get<std::int64_t>();
  field = static_cast<int>(wide);
  if (field != wide) {
    throw Error(ErrorKind::kInvalidEnvironment, flag_text(name, value) + "; that is too large");
  }
}
void set_field(const char* name, bool& field, const base::Json& value) {
  if (!value.is_boolean()) {
    throw Error(ErrorKind::kInvalidEnvironment,
                flag_text(name, value) + "; expected true or false");
  }
  field = value.get<bool>();
}
void set_field(const char* name, kernel::DType& field, const base::Json& value) {
  if (value == "fp16") {
    field = kernel::DType::kFloat16;
  } else if (value == "bf16") {
    field = kernel::DType::kBFloat16;
  } else {
    throw Error(ErrorKind::kInvalidEnvironment,
                flag_text(name, value) + "; expected \"fp16\" or \"bf16\"");
  }
}
void set_field(const char* name, kernel::SoftmaxPolicy& field, const base::Json& value) {
  if (value == "running_max") {
    field = kernel::SoftmaxPolicy::kRunningMax;
  } else if (value == "max_free") {
    field = kernel::SoftmaxPolicy::kMaxFree;
  } else {
    throw Error(ErrorKind::kInvalidEnvironment,
                flag_text(name, value) + "; expected \"running_max\" or \"max_free\"");
  }
}

base::Json json_value(int value) { return value; }
base::Json json_value(bool value) { return value; }
base::Json json_value(kernel::DType value) {
  return value == kernel::DType::kFloat16    ? "fp16"
         : value == kernel::DType::kBFloat16 ? "bf16"
                                             : "fp32";
}
base::Json json_value(kernel::SoftmaxPolicy value) {
  return value == kernel::SoftmaxPolicy::kMaxFree ? "max_free" : "running_max";
}

template <class Config>
std::string config_json(const Config& config) {
  base::Json object;
  for_each_field(config,
                 [&](const char* name, const auto& value) { object[name] = json_value(value); });
  return object.dump();
}

}  // namespace

std::string to_json(const kernel::ForwardConfig& config) { return config_json(config); }
std::string to_json(const kernel::MaskPackConfig& config) { return config_json(config); }

void update_from_json(kernel::ForwardConfig& config, const std::string& json) {
  const auto object = base::try_parse_json(json, base::JsonComments::kAllowed);
  if (!object.is_object()) {
    throw Error(ErrorKind::kInvalidEnvironment,
                "config: expected a JSON object such as {\"block_q\": 128, \"num_warps\": 8}");
  }
  std::set<std::string> known;
  for_each_field(config, [&](const char* name, auto& field) {
    known.insert(name);
    if (object.contains(name)) set_field(name, field, object[name]);
  });
  for (const auto& [name, value] : object.items()) {
    if (known.contains(name)) continue;
    throw Error(ErrorKind::kInvalidEnvironment,
                fmt::format("config: unknown member \"{}\"; expected one of {}", name,
                            fmt::join(known, ", ")));
  }
}

std::optional<std::string> why_foreign(const kernel::ForwardConfig& config,
                                       const problem::Family& family) {
  kernel::ForwardConfig expected = specialise(family);
  expected.pack_heads = config.pack_heads;
  expected.block_q = config.block_q;
  expected.block_kv = config.block_kv;
  expected.num_stages = config.num_stages;
  expected.num_warps = config.num_warps;
  expected.min_blocks = config.min_blocks;
  expected.softmax = config.softmax;
  const auto has = base::parse_json(to_json(config));
  const auto needs = base::parse_json(to_json(expected));
  for (const auto& [name, value] : has.items()) {
    if (value != needs[name]) {
      return fmt::format("{} is {}; this problem needs {}", name, value.dump(), needs[name].dump());
    }
  }
  if (config.pack_heads && family.mask_per_query_head) {
    return "pack_heads is true; the heads of a kv head must share the mask";
  }
  if (config.pack_heads && family.mask == problem::Extent::kPerPair &&
      config.block_q % family.gqa_ratio != 0) {
    return fmt::format("pack_heads is true; with this mask block_q must be a multiple of {}",
                       family.gqa_ratio);
  }
  return std::nullopt;
}

}  // namespace attnjit::codegen
