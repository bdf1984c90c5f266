#pragma once
#include <cuda.h>
#include <fmt/format.h>
#include <sys/types.h>

#include <memory>
#include <string>
#include <utility>

namespace attnjit::cuda {

/// The driver entry points that this library calls. Every member must be set.
/// The types come from <cuda.h>; nothing here links against libcuda.
struct DriverApi {
  decltype(&cuInit) init = nullptr;
  decltype(&cuDriverGetVersion) driver_get_version = nullptr;
  decltype(&cuGetErrorName) get_error_name = nullptr;
  decltype(&cuGetErrorString) get_error_string = nullptr;

  decltype(&cuDeviceGetCount) device_get_count = nullptr;
  decltype(&cuDeviceGet) device_get = nullptr;
  decltype(&cuDeviceGetName) device_get_name = nullptr;
  decltype(&cuDeviceGetAttribute) device_get_attribute = nullptr;
  decltype(&cuDeviceTotalMem) device_total_mem = nullptr;
  decltype(&cuDevicePrimaryCtxRetain) primary_ctx_retain = nullptr;
  decltype(&cuDevicePrimaryCtxRelease) primary_ctx_release = nullptr;
  decltype(&cuCtxPushCurrent) ctx_push_current = nullptr;
  decltype(&cuCtxPopCurrent) ctx_pop_current = nullptr;
  decltype(&cuCtxGetCurrent) ctx_get_current = nullptr;
  decltype(&cuCtxGetDevice) ctx_get_device = nullptr;
  decltype(&cuCtxGetId) ctx_get_id = nullptr;

  decltype(&cuLibraryLoadData) library_load_data = nullptr;
  decltype(&cuLibraryUnload) library_unload = nullptr;
  decltype(&cuLibraryGetKernel) library_get_kernel = nullptr;
  decltype(&cuKernelGetFunction) kernel_get_function = nullptr;
  decltype(&cuFuncSetAttribute) func_set_attribute = nullptr;
  decltype(&cuFuncGetAttribute) func_get_attribute = nullptr;
  decltype(&cuLaunchKernelEx) launch_kernel_ex = nullptr;
  decltype(&cuTensorMapEncodeTiled) tensor_map_encode_tiled = nullptr;
  decltype(&cuTensorMapReplaceAddress) tensor_map_replace_address = nullptr;

  decltype(&cuMemAlloc) mem_alloc = nullptr;
  decltype(&cuMemFree) mem_free = nullptr;
  decltype(&cuMemAllocAsync) mem_alloc_async = nullptr;
  decltype(&cuMemFreeAsync) mem_free_async = nullptr;
  decltype(&cuMemcpyHtoDAsync) memcpy_htod_async = nullptr;
  decltype(&cuMemcpyDtoHAsync) memcpy_dtoh_async = nullptr;
  decltype(&cuMemcpyDtoDAsync) memcpy_dtod_async = nullptr;
  decltype(&cuMemsetD8Async) memset_d8_async = nullptr;
  decltype(&cuPointerGetAttribute) pointer_get_attribute = nullptr;

  decltype(&cuStreamCreate) stream_create = nullptr;
  decltype(&cuStreamDestroy) stream_destroy = nullptr;
  decltype(&cuStreamSynchronize) stream_synchronize = nullptr;
  decltype(&cuStreamIsCapturing) stream_is_capturing = nullptr;
  decltype(&cuStreamBeginCapture) stream_begin_capture = nullptr;
  decltype(&cuStreamEndCapture) stream_end_capture = nullptr;
  decltype(&cuThreadExchangeStreamCaptureMode) exchange_capture_mode = nullptr;
  decltype(&cuEventCreate) event_create = nullptr;
  decltype(&cuEventDestroy) event_destroy = nullptr;
  decltype(&cuEventRecord) event_record = nullptr;
  decltype(&cuEventSynchronize) event_synchronize = nullptr;
  decltype(&cuEventElapsedTime) event_elapsed_time = nullptr;
  decltype(&cuGraphInstantiateWithFlags) graph_instantiate = nullptr;
  decltype(&cuGraphDestroy) graph_destroy = nullptr;
  decltype(&cuGraphExecDestroy) graph_exec_destroy = nullptr;
  decltype(&cuGraphLaunch) graph_launch = nullptr;
};

/// An initialised driver. Every object of this room keeps a pointer to the Driver it was made
/// from, so the Driver must outlive them all.
class Driver {
 public:
  /// Calls cuInit through `api`. Throws Error(kNoDevice) when that fails, when the driver is
  /// older than CUDA 12.4, or when there is no device.
  explicit Driver(const DriverApi& api);

  /// Opens libcuda.so.1, never to close it, and resolves the table above.
  /// Throws Error(kNoDevice) as above and when there is no libcuda.
  static std::shared_ptr<const Driver> load();

  const DriverApi& api() const { return api_; }

  /// "CUDA_ERROR_OUT_OF_MEMORY: out of memory".
  std::string describe(CUresult result) const;

  /// The CUDA version that the driver supports: 1000 * major + 10 * minor.
  int driver_version() const { return version_; }

  /// Throws Error(kUnsupported) in a child of fork(): CUDA works only in the process that
  /// initialised it.
  void expect_own_process() const;

  /// Throws Error(kCuda) unless `result` is success, or what expect_own_process() throws. `what`
  /// and its arguments, formatted only then, complete the sentence "cannot ...".
  template <class... Args>
  void check(CUresult result, fmt::format_string<Args...> what, Args&&... args) const {
    if (result != CUDA_SUCCESS) fail(result, fmt::format(what, std::forward<Args>(args)...));
  }

 private:
  [[noreturn]] void fail(CUresult result, const std::string& what) const;

  DriverApi api_;
  const pid_t process_;
  int version_ = 0;
};

}  // namespace attnjit::cuda
