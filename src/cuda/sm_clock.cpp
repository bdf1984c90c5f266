#include "cuda/sm_clock.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <string>

namespace attnjit::cuda {
namespace {

// Numbers of NVML's API (NVML API Reference Guide, "Device Enums").
constexpr int kSuccess = 0, kClockSm = 1;

template <class Function>
Function symbol(void* library, const char* name) {
  return reinterpret_cast<Function>(dlsym(library, name));
}

// "00000000:19:00.0"
std::string bus_id(const Driver& driver, int ordinal) {
  const auto read = [&](CUdevice_attribute which) {
    int value = 0;
    driver.check(driver.api().device_get_attribute(&value, which, ordinal),
                 "read a device attribute");
    return value;
  };
  return fmt::format("{:08x}:{:02x}:{:02x}.0", read(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID),
                     read(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID), read(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID));
}

}  // namespace

std::optional<SmClock> SmClock::find(const Driver& driver, int ordinal) {
  void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);  // never closed
  if (library == nullptr) return std::nullopt;
  const auto init = symbol<int (*)()>(library, "nvmlInit_v2");
  const auto handle =
      symbol<int (*)(const char*, Device*)>(library, "nvmlDeviceGetHandleByPciBusId_v2");
  const auto get = symbol<GetClock>(library, "nvmlDeviceGetClockInfo");
  if (init == nullptr || handle == nullptr || get == nullptr || init() != kSuccess) {
    return std::nullopt;
  }
  Device device = nullptr;
  if (handle(bus_id(driver, ordinal).c_str(), &device) != kSuccess) return std::nullopt;
  return SmClock(device, get);
}

std::optional<double> SmClock::mhz() const {
  unsigned value = 0;
  if (get_(device_, kClockSm, &value) != kSuccess) return std::nullopt;
  return value;
}

}  // namespace attnjit::cuda
