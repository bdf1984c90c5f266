#pragma once
#include <optional>

#include "cuda/device.hpp"

namespace attnjit::python {

/// Makes the primary context of device `ordinal` current on this thread while it lives, unless a
/// context of that device is: threads that PyTorch starts may have none. Without a driver it does
/// nothing.
class DeviceGuard {
 public:
  DeviceGuard(const cuda::Driver* driver, int ordinal) {
    if (driver == nullptr) return;
    CUdevice current = 0;
    const bool is_current =
        driver->api().ctx_get_device(&current) == CUDA_SUCCESS && current == ordinal;
    if (!is_current) context_.emplace(*driver, ordinal);
  }

 private:
  std::optional<cuda::PrimaryContext> context_;
};

}  // namespace attnjit::python
