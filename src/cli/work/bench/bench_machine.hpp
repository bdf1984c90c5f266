#pragma once
#include <string>

#include "base/json_fwd.hpp"
#include "cli/report/console.hpp"
#include "cuda/device.hpp"

namespace attnjit::cli {

/// The time now, "2026-11-21T06:10:59Z".
std::string utc_now();

Json device_json(const cuda::DeviceInfo& device);

/// The state of each GPU now by nvidia-smi, a line each: index, name, driver, SM and memory clock,
/// highest SM clock, power, temperature. An empty list without nvidia-smi.
Json query_gpus();

}  // namespace attnjit::cli
