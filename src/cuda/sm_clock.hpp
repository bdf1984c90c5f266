#pragma once
#include <optional>

#include "cuda/driver.hpp"

namespace attnjit::cuda {

/// The clock of a device's SMs by NVML (libnvidia-ml.so.1), which comes with the driver. Any thread
/// may read it.
class SmClock {
 public:
  /// Of the device of that ordinal; nullopt where there is no NVML, or it does not know the device.
  static std::optional<SmClock> find(const Driver& driver, int ordinal);

  /// MHz now; nullopt where NVML does not tell.
  std::optional<double> mhz() const;

 private:
  using Device = struct NvmlDevice*;
  using GetClock = int (*)(Device, int, unsigned*);

  SmClock(Device device, GetClock get) : device_(device), get_(get) {}

  Device device_;
  GetClock get_;
};

}  // namespace attnjit::cuda
