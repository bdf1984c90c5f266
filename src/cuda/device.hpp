#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "cuda/driver.hpp"

namespace attnjit::cuda {

/// The properties of a device that planning and tuning use.
struct DeviceInfo {
  int ordinal = 0;
  std::string name;
  int major = 0;
  int minor = 0;
  int sm_count = 0;
  std::size_t shared_memory_per_block_optin = 0;
  std::size_t shared_memory_per_sm = 0;
  std::size_t l2_bytes = 0;
  std::size_t memory_bytes = 0;
  int clock_khz = 0;

  /// The name that NVRTC is asked for, "sm_80" or "sm_90a".
  std::string arch() const;
};

/// All devices that the driver shows, by ordinal.
std::vector<DeviceInfo> devices(const Driver& driver);

/// The device of the current context. Throws Error(kNoDevice) when no context is current.
DeviceInfo current_device(const Driver& driver);

/// Identity of the current context, never reused in this process: a key for what was loaded into
/// it. Nothing when no context is current.
std::optional<unsigned long long> find_current_context_id(const Driver& driver);

/// The same. Throws Error(kNoDevice) when no context is current.
unsigned long long current_context_id(const Driver& driver);

/// Makes a device's primary context (the one of the CUDA runtime and of PyTorch) current on the
/// calling thread. Destroy it on the same thread, in reverse order of construction.
class PrimaryContext {
 public:
  explicit PrimaryContext(const Driver& driver, int ordinal = 0);
  ~PrimaryContext();
  PrimaryContext(const PrimaryContext&) = delete;
  PrimaryContext& operator=(const PrimaryContext&) = delete;

 private:
  const Driver* driver_;
  CUdevice device_ = 0;
};

}  // namespace attnjit::cuda
