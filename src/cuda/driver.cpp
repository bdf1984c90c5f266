#include "cuda/driver.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include "attnjit/error.hpp"

namespace attnjit::cuda {
namespace {

constexpr int kOldestDriver = 12040;
constexpr const char* kLibcuda = "libcuda.so.1";
constexpr const char* kWithoutGpu =
    "Without a GPU attnjit warmup compiles, and attnjit run --on cpu computes where the CPU "
    "executor was built, as wheels lack it; attnjit.reference computes from Python.";

Error no_device(const std::string& message) {
  return Error(ErrorKind::kNoDevice, fmt::format("{}. {}", message, kWithoutGpu));
}

Error forked() {
  return Error(
      ErrorKind::kUnsupported,
      "CUDA does not work in a child of fork() whose parent has used it; start the process "
      "by spawn (Python: multiprocessing.set_start_method(\"spawn\")) or fork before the "
      "first use of CUDA");
}

std::string text_of(const DriverApi& api, CUresult result) {
  const char* name = nullptr;
  const char* text = nullptr;
  if (api.get_error_name(result, &name) != CUDA_SUCCESS || name == nullptr) {
    return fmt::format("CUDA error {}", static_cast<int>(result));
  }
  if (api.get_error_string(result, &text) != CUDA_SUCCESS || text == nullptr) return name;
  return fmt::format("{}: {}", name, text);
}

/// Looks entry points up by their plain names. The ABI of each is pinned to the oldest driver
/// that is served, so a newer driver cannot hand out a function of another signature.
class Resolver {
 public:
  explicit Resolver(void* library) {
    get_proc_address_ =
        reinterpret_cast<decltype(&cuGetProcAddress)>(dlsym(library, "cuGetProcAddress_v2"));
    if (get_proc_address_ == nullptr) {
      throw no_device(fmt::format(
          "{} has no cuGetProcAddress_v2: the NVIDIA driver is older than CUDA 12.4; update it",
          kLibcuda));
    }
  }

  template <class Function>
  void operator()(Function& function, const char* name) const {
    void* address = nullptr;
    const CUresult result = get_proc_address_(name, &address, kOldestDriver,
                                              CU_GET_PROC_ADDRESS_LEGACY_STREAM, nullptr);
    if (result != CUDA_SUCCESS || address == nullptr) {
      throw no_device(fmt::format(
          "{} has no {}: the NVIDIA driver is older than CUDA 12.4; update it", kLibcuda, name));
    }
    function = reinterpret_cast<Function>(address);
  }

 private:
  decltype(&cuGetProcAddress) get_proc_address_;
};

void resolve_devices(const Resolver& resolve, DriverApi& api) {
  resolve(api.init, "cuInit");
  resolve(api.driver_get_version, "cuDriverGetVersion");
  resolve(api.get_error_name, "cuGetErrorName");
  resolve(api.get_error_string, "cuGetErrorString");
  resolve(api.device_get_count, "cuDeviceGetCount");
  resolve(api.device_get, "cuDeviceGet");
  resolve(api.device_get_name, "cuDeviceGetName");
  resolve(api.device_get_attribute, "cuDeviceGetAttribute");
  resolve(api.device_total_mem, "cuDeviceTotalMem");
  resolve(api.primary_ctx_retain, "cuDevicePrimaryCtxRetain");
  resolve(api.primary_ctx_release, "cuDevicePrimaryCtxRelease");
  resolve(api.ctx_push_current, "cuCtxPushCurrent");
  resolve(api.ctx_pop_current, "cuCtxPopCurrent");
  resolve(api.ctx_get_current, "cuCtxGetCurrent");
  resolve(api.ctx_get_device, "cuCtxGetDevice");
  resolve(api.ctx_get_id, "cuCtxGetId");
}

void resolve_kernels_and_memory(const Resolver& resolve, DriverApi& api) {
  resolve(api.library_load_data, "cuLibraryLoadData");
  resolve(api.library_unload, "cuLibraryUnload");
  resolve(api.library_get_kernel, "cuLibraryGetKernel");
  resolve(api.kernel_get_function, "cuKernelGetFunction");
  resolve(api.func_set_attribute, "cuFuncSetAttribute");
  resolve(api.func_get_attribute, "cuFuncGetAttribute");
  resolve(api.launch_kernel_ex, "cuLaunchKernelEx");
  resolve(api.tensor_map_encode_tiled, "cuTensorMapEncodeTiled");
  resolve(api.tensor_map_replace_address, "cuTensorMapReplaceAddress");
  resolve(api.mem_alloc, "cuMemAlloc");
  resolve(api.mem_free, "cuMemFree");
  resolve(api.mem_alloc_async, "cuMemAllocAsync");
  resolve(api.mem_free_async, "cuMemFreeAsync");
  resolve(api.memcpy_htod_async, "cuMemcpyHtoDAsync");
  resolve(api.memcpy_dtoh_async, "cuMemcpyDtoHAsync");
  resolve(api.memcpy_dtod_async, "cuMemcpyDtoDAsync");
  resolve(api.memset_d8_async, "cuMemsetD8Async");
  resolve(api.pointer_get_attribute, "cuPointerGetAttribute");
}

void resolve_streams(const Resolver& resolve, DriverApi& api) {
  resolve(api.stream_create, "cuStreamCreate");
  resolve(api.stream_destroy, "cuStreamDestroy");
  resolve(api.stream_synchronize, "cuStreamSynchronize");
  resolve(api.stream_is_capturing, "cuStreamIsCapturing");
  resolve(api.stream_begin_capture, "cuStreamBeginCapture");
  resolve(api.stream_end_capture, "cuStreamEndCapture");
  resolve(api.exchange_capture_mode, "cuThreadExchangeStreamCaptureMode");
  resolve(api.event_create, "cuEventCreate");
  resolve(api.event_destroy, "cuEventDestroy");
  resolve(api.event_record, "cuEventRecord");
  resolve(api.event_synchronize, "cuEventSynchronize");
  resolve(api.event_elapsed_time, "cuEventElapsedTime");
  resolve(api.graph_instantiate, "cuGraphInstantiateWithFlags");
  resolve(api.graph_destroy, "cuGraphDestroy");
  resolve(api.graph_exec_destroy, "cuGraphExecDestroy");
  resolve(api.graph_launch, "cuGraphLaunch");
}

}  // namespace

Driver::Driver(const DriverApi& api) : api_(api), process_(::getpid()) {
  const CUresult result = api_.init(0);
  if (result == CUDA_ERROR_NOT_INITIALIZED) throw forked();  // its parent has used CUDA
  if (result != CUDA_SUCCESS) {
    throw no_device(fmt::format(
        "CUDA cannot start: {}; check that nvidia-smi lists a GPU and that the container was "
        "started with GPU access",
        text_of(api_, result)));
  }
  check(api_.driver_get_version(&version_), "read the driver version");
  if (version_ < kOldestDriver) {
    throw no_device(
        fmt::format("the NVIDIA driver supports CUDA {}.{}, attnjit needs 12.4 or later; update it",
                    version_ / 1000, version_ % 1000 / 10));
  }
  int count = 0;
  check(api_.device_get_count(&count), "count the CUDA devices");
  if (count == 0) throw no_device("there is no CUDA device (is CUDA_VISIBLE_DEVICES empty?)");
}

std::shared_ptr<const Driver> Driver::load() {
  // By soname only: a toolkit's stubs directory holds a libcuda.so that opens, but fails in every
  // call.
  void* library = dlopen(kLibcuda, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = dlerror();
    throw no_device(
        fmt::format("cannot open {} ({}): it comes with the NVIDIA driver, and a container needs "
                    "GPU access (docker run --gpus all) to see it",
                    kLibcuda, reason == nullptr ? "no reason given" : reason));
  }
  DriverApi api;
  const Resolver resolve(library);
  resolve_devices(resolve, api);
  resolve_kernels_and_memory(resolve, api);
  resolve_streams(resolve, api);
  return std::make_shared<const Driver>(api);
}

std::string Driver::describe(CUresult result) const { return text_of(api_, result); }

void Driver::expect_own_process() const {
  if (process_ != ::getpid()) throw forked();
}

void Driver::fail(CUresult result, const std::string& what) const {
  expect_own_process();
  throw Error(ErrorKind::kCuda, fmt::format("cannot {}: {}", what, describe(result)));
}

}  // namespace attnjit::cuda
