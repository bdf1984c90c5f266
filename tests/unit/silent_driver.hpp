#pragma once
#include <cstdint>
#include <cstring>
#include <memory>

#include "cuda/driver.hpp"

namespace attnjit::test {

inline void fill_device(cuda::DriverApi& api) {
  api.init = [](unsigned) { return CUDA_SUCCESS; };
  api.driver_get_version = [](int* out) { return *out = 13000, CUDA_SUCCESS; };
  api.device_get_count = [](int* out) { return *out = 1, CUDA_SUCCESS; };
  api.device_get_name = [](char* out, int, CUdevice) { return *out = '\0', CUDA_SUCCESS; };
  api.device_get_attribute = [](int* out, CUdevice_attribute which, CUdevice) {
    *out = which == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? 8
           : which == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT   ? 1
                                                                 : 0;
    return CUDA_SUCCESS;
  };
  api.device_total_mem = [](std::size_t* out, CUdevice) { return *out = 0, CUDA_SUCCESS; };
  api.ctx_get_current = [](CUcontext* out) {
    return *out = reinterpret_cast<CUcontext>(0x10), CUDA_SUCCESS;
  };
  api.ctx_get_device = [](CUdevice* out) { return *out = 0, CUDA_SUCCESS; };
  api.ctx_get_id = [](CUcontext, unsigned long long* out) { return *out = 7, CUDA_SUCCESS; };
}

inline void fill_kernels(cuda::DriverApi& api) {
  api.library_load_data = [](CUlibrary* out, const void*, CUjit_option*, void**, unsigned,
                             CUlibraryOption*, void**, unsigned) {
    return *out = reinterpret_cast<CUlibrary>(0x20), CUDA_SUCCESS;
  };
  api.library_unload = [](CUlibrary) { return CUDA_SUCCESS; };
  api.library_get_kernel = [](CUkernel* out, CUlibrary, const char*) {
    return *out = reinterpret_cast<CUkernel>(0x30), CUDA_SUCCESS;
  };
  api.kernel_get_function = [](CUfunction* out, CUkernel) {
    return *out = reinterpret_cast<CUfunction>(0x40), CUDA_SUCCESS;
  };
  api.func_set_attribute = [](CUfunction, CUfunction_attribute, int) { return CUDA_SUCCESS; };
  api.func_get_attribute = [](int* out, CUfunction_attribute, CUfunction) {
    return *out = 0, CUDA_SUCCESS;
  };
  api.launch_kernel_ex = [](const CUlaunchConfig*, CUfunction, void**, void**) {
    return CUDA_SUCCESS;
  };
  api.exchange_capture_mode = [](CUstreamCaptureMode*) { return CUDA_SUCCESS; };
}

inline void fill_memory(cuda::DriverApi& api) {
  api.mem_alloc_async = [](CUdeviceptr* out, std::size_t, CUstream) {
    return *out = 0x1000, CUDA_SUCCESS;
  };
  api.mem_free_async = [](CUdeviceptr, CUstream) { return CUDA_SUCCESS; };
  api.pointer_get_attribute = [](void* out, CUpointer_attribute, CUdeviceptr pointer) {
    std::memcpy(out, &pointer, sizeof pointer);
    return CUDA_SUCCESS;
  };
}

/// The driver calls that a forward makes, answered by nothing that costs anything: a device of
/// compute capability 8.0 and one SM that takes every address for its own and does no work. It
/// keeps no state, so that any number of threads may call it. A test replaces the members that it
/// wants to watch.
inline cuda::DriverApi silent_api() {
  cuda::DriverApi api;
  fill_device(api);
  fill_kernels(api);
  fill_memory(api);
  return api;
}

/// The same of compute capability 9.0, with tensor maps.
inline cuda::DriverApi silent_hopper_api() {
  cuda::DriverApi api = silent_api();
  api.device_get_attribute = [](int* out, CUdevice_attribute which, CUdevice) {
    *out = which == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? 9
           : which == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT   ? 132
                                                                 : 0;
    return CUDA_SUCCESS;
  };
  api.tensor_map_encode_tiled =
      [](CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*, const cuuint64_t*,
         const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
         CUtensorMapL2promotion, CUtensorMapFloatOOBfill) { return CUDA_SUCCESS; };
  api.tensor_map_replace_address = [](CUtensorMap*, void*) { return CUDA_SUCCESS; };
  return api;
}

inline std::shared_ptr<const cuda::Driver> silent_driver() {
  return std::make_shared<const cuda::Driver>(silent_api());
}

}  // namespace attnjit::test
