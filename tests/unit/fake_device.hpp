#pragma once
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>

#include "cuda/device.hpp"
#include "launch/tensor_maps.hpp"
#include "unit/cuda_stub_driver.hpp"

namespace attnjit::test {

/// A stub driver with an H200's properties whose launches take made-up times. Its device memory is
/// host memory, every address is some of it, and its kernels do nothing. One at a time.
class FakeDevice {
 public:
  FakeDevice() {
    cuda::StubDriver& state = cuda::reset_stub();
    state.device_attributes = {{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9},
                               {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0},
                               {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 132},
                               {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 60 << 20}};
    milliseconds() = [](const CUlaunchConfig&) { return 0.1f; };
    run() = [](const CUlaunchConfig&) {};
    driver_ = std::make_shared<const cuda::Driver>(api());
    current_ = std::make_unique<cuda::PrimaryContext>(*driver_);
  }

  std::shared_ptr<const cuda::Driver> driver() const { return driver_; }
  const cuda::Driver& operator*() const { return *driver_; }

  /// The work of a launch: kernels do nothing else.
  static std::function<void(const CUlaunchConfig&)>& run() {
    static std::function<void(const CUlaunchConfig&)> work;
    return work;
  }

  /// Fails all that is asked of the context from now on, as after an illegal access.
  static void lose_context() {
    for (const char* call : {"launch", "synchronize", "event_synchronize", "dtoh"}) {
      cuda::stub().results[call] = CUDA_ERROR_ILLEGAL_ADDRESS;
    }
  }

  /// The time that a launch takes.
  static std::function<float(const CUlaunchConfig&)>& milliseconds() {
    static std::function<float(const CUlaunchConfig&)> time;
    return time;
  }

 private:
  static constexpr std::size_t kUntouched = std::size_t{64} << 20;  // such as the flush of L2

  static cuda::DriverApi api() {
    cuda::DriverApi api = cuda::stub_api();
    api.mem_alloc = [](CUdeviceptr* out, std::size_t bytes) {
      return cuda::stub().call("alloc",
                               [&] { *out = reinterpret_cast<CUdeviceptr>(std::malloc(bytes)); });
    };
    api.mem_free = [](CUdeviceptr pointer) {
      return cuda::stub().call("free", [&] { std::free(reinterpret_cast<void*>(pointer)); });
    };
    api.launch_kernel_ex = [](const CUlaunchConfig* config, CUfunction, void**, void**) {
      return cuda::stub().call("launch", [&] {
        cuda::stub().launch = *config;
        run()(*config);
      });
    };
    api.tensor_map_encode_tiled = launch::encode_nothing;
    api.tensor_map_replace_address = [](CUtensorMap*, void*) { return CUDA_SUCCESS; };
    api.memset_d8_async = [](CUdeviceptr to, unsigned char value, std::size_t bytes, CUstream) {
      if (bytes < kUntouched) std::memset(reinterpret_cast<void*>(to), value, bytes);
      return CUDA_SUCCESS;
    };
    api.pointer_get_attribute = [](void* out, CUpointer_attribute, CUdeviceptr pointer) {
      return cuda::stub().call("pointer", [&] { std::memcpy(out, &pointer, sizeof pointer); });
    };
    api.event_elapsed_time = [](float* out, CUevent, CUevent) {
      *out = milliseconds()(cuda::stub().launch);
      return CUDA_SUCCESS;
    };
    return api;
  }

  std::shared_ptr<const cuda::Driver> driver_;
  std::unique_ptr<cuda::PrimaryContext> current_;
};

}  // namespace attnjit::test
