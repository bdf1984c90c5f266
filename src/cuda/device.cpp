#include "cuda/device.hpp"

#include <fmt/format.h>

#include <array>

#include "attnjit/error.hpp"

namespace attnjit::cuda {
namespace {

int attribute(const Driver& driver, CUdevice device, CUdevice_attribute which) {
  int value = 0;
  driver.check(driver.api().device_get_attribute(&value, which, device), "read a device attribute");
  return value;
}

DeviceInfo describe(const Driver& driver, CUdevice device) {
  DeviceInfo info;
  // A CUdevice is the ordinal: the driver API documents both as 0 to count - 1.
  info.ordinal = device;
  std::array<char, 256> name{};
  driver.check(driver.api().device_get_name(name.data(), static_cast<int>(name.size()) - 1, device),
               "read a device name");
  info.name = name.data();
  const auto read = [&](CUdevice_attribute which) { return attribute(driver, device, which); };
  const auto bytes = [&](CUdevice_attribute which) {
    return static_cast<std::size_t>(attribute(driver, device, which));
  };
  info.major = read(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  info.minor = read(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  info.sm_count = read(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  info.shared_memory_per_block_optin = bytes(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  info.shared_memory_per_sm = bytes(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
  info.l2_bytes = bytes(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  info.clock_khz = read(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
  driver.check(driver.api().device_total_mem(&info.memory_bytes, device),
               "read a device's memory size");
  return info;
}

CUcontext current_context(const Driver& driver) {
  CUcontext context = nullptr;
  driver.check(driver.api().ctx_get_current(&context), "read the current CUDA context");
  if (context == nullptr) {
    throw Error(ErrorKind::kNoDevice,
                "no CUDA context is current on this thread; select a device first "
                "(cudaSetDevice, torch.cuda.set_device or cuCtxSetCurrent)");
  }
  return context;
}

}  // namespace

std::string DeviceInfo::arch() const {
  // wgmma and setmaxnreg exist only under the architecture-specific name of compute capability
  // 9.0. No other device needs its suffix for the instructions that the templates use.
  const char* suffix = major == 9 && minor == 0 ? "a" : "";
  return fmt::format("sm_{}{}{}", major, minor, suffix);
}

std::vector<DeviceInfo> devices(const Driver& driver) {
  int count = 0;
  driver.check(driver.api().device_get_count(&count), "count the CUDA devices");
  std::vector<DeviceInfo> found;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    CUdevice device = 0;
    driver.check(driver.api().device_get(&device, ordinal), "open a CUDA device");
    found.push_back(describe(driver, device));
  }
  return found;
}

DeviceInfo current_device(const Driver& driver) {
  current_context(driver);
  CUdevice device = 0;
  driver.check(driver.api().ctx_get_device(&device), "read the current CUDA device");
  return describe(driver, device);
}

// The driver takes null for the current context. Each call of a pass asks.
std::optional<unsigned long long> find_current_context_id(const Driver& driver) {
  unsigned long long id = 0;
  if (driver.api().ctx_get_id(nullptr, &id) != CUDA_SUCCESS) return std::nullopt;
  return id;
}

unsigned long long current_context_id(const Driver& driver) {
  if (const auto id = find_current_context_id(driver)) return *id;
  unsigned long long id = 0;
  driver.check(driver.api().ctx_get_id(current_context(driver), &id),
               "read the id of the current CUDA context");
  return id;
}

PrimaryContext::PrimaryContext(const Driver& driver, int ordinal) : driver_(&driver) {
  const DriverApi& api = driver.api();
  driver.check(api.device_get(&device_, ordinal), "open CUDA device {}", ordinal);
  CUcontext context = nullptr;
  driver.check(api.primary_ctx_retain(&context, device_), "create a context on CUDA device {}",
               ordinal);
  if (const CUresult result = api.ctx_push_current(context); result != CUDA_SUCCESS) {
    api.primary_ctx_release(device_);
    driver.check(result, "make CUDA device {} current", ordinal);
  }
}

PrimaryContext::~PrimaryContext() {
  CUcontext popped = nullptr;
  driver_->api().ctx_pop_current(&popped);
  driver_->api().primary_ctx_release(device_);
}

}  // namespace attnjit::cuda
