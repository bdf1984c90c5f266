#pragma once
#include <fmt/format.h>

#include <string>

#include "attnjit/backward/dkv_wgmma/config.h"
#include "attnjit/backward/mma/config.h"
#include "attnjit/backward/mma/single_tile_config.h"
#include "attnjit/forward/mma/config.h"
#include "base/fields.hpp"
#include "problem/problem.hpp"

namespace attnjit::codegen {

/// Values as C++ spells them.
inline std::string literal(int value) { return fmt::to_string(value); }
inline std::string literal(bool value) { return value ? "true" : "false"; }
inline std::string literal(kernel::DType value) {
  switch (value) {
    case kernel::DType::kFloat16:
      return "DType::kFloat16";
    case kernel::DType::kBFloat16:
      return "DType::kBFloat16";
    case kernel::DType::kFloat32:
      return "DType::kFloat32";
  }
  return "";
}
inline std::string literal(kernel::SoftmaxPolicy value) {
  return value == kernel::SoftmaxPolicy::kMaxFree ? "SoftmaxPolicy::kMaxFree"
                                                  : "SoftmaxPolicy::kRunningMax";
}
inline std::string literal(kernel::Fresh value) {
  constexpr const char* kNames[] = {"kNone",   "kShared",       "kWarp",       "kSharedWarp",
                                    "kThread", "kSharedThread", "kWarpThread", "kSharedWarpThread"};
  return fmt::format("Fresh::{}", kNames[static_cast<int>(value)]);
}
inline std::string literal(kernel::DqOrder value) {
  constexpr const char* kNames[] = {"kAny", "kFirstStores", "kKeys"};
  return fmt::format("DqOrder::{}", kNames[static_cast<int>(value)]);
}
inline std::string literal(kernel::PlaneSums value) {
  constexpr const char* kNames[] = {"kNone", "kStoreDbias", "kDbias", "kOperand"};
  return fmt::format("PlaneSums::{}", kNames[static_cast<int>(value)]);
}
inline std::string literal(problem::Extent value) {
  switch (value) {
    case problem::Extent::kPerQuery:
      return "Extent::kPerQuery";
    case problem::Extent::kPerKey:
      return "Extent::kPerKey";
    case problem::Extent::kPerPair:
      return "Extent::kPerPair";
    case problem::Extent::kAbsent:
      break;
  }
  return "";
}

/// "fp16": for titles.
inline const char* name(kernel::DType dtype) {
  switch (dtype) {
    case kernel::DType::kFloat16:
      return "fp16";
    case kernel::DType::kBFloat16:
      return "bf16";
    case kernel::DType::kFloat32:
      break;
  }
  return "fp32";
}

/// The designated initialisers of a config, a line each.
template <class Config>
std::string initialiser(const Config& config) {
  std::string text;
  base::for_each_field(config, [&](const char* name, const auto& value) {
    text += fmt::format("    .{} = {},\n", name, literal(value));
  });
  return text;
}

}  // namespace attnjit::codegen
