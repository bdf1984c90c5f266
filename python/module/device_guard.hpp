#pragma once
#include <optional>

#include "cuda/device.hpp"

namespace attnjit::python {

/// Makes the primary context of device `ordinal` current on this thread while it lives, unless a
/// context of that device is: threads that PyTorch starts may have none. Without a driver it does
/// nothing.
class DeviceGuard {
 public:
  DeviceGuard(const cuda::Driver* driver, int ordinal) : ordinal_(ordinal) {
    if (driver == nullptr) return;
    CUdevice current = 0;
    was_current_ = driver->api().ctx_get_device(&current) == CUDA_SUCCESS && current == ordinal;
    if (!was_current_) context_.emplace(*driver, ordinal);
  }

  int ordinal() const { return ordinal_; }

  /// Whether the device was the current one before.
  bool was_current() const { return was_current_; }

 private:
  int ordinal_;
  bool was_current_ = false;
  std::optional<cuda::PrimaryContext> context_;
};

}  // namespace attnjit::python
