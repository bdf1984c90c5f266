#pragma once
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cuda/driver.hpp"

namespace attnjit::cuda {

/// A driver without a device behind it: it records calls, hands out made-up handles and fails
/// where a test asks it to. There is one per test program, for driver entry points are plain
/// functions; a test begins with reset_stub().
struct StubDriver {
  std::vector<std::string> calls;           ///< names, in order
  std::map<std::string, CUresult> results;  ///< calls that fail, by name
  std::set<std::uintptr_t> live;            ///< handles and memory not yet given back
  std::uintptr_t next_handle = 0x1000;

  int version = 13000;
  int device_count = 1;
  std::map<CUdevice_attribute, int> device_attributes;
  std::map<CUfunction_attribute, int> function_attributes;
  std::vector<CUcontext> contexts;  ///< the stack of current ones
  CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  CUstreamCaptureMode mode_at_load = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::vector<CUstreamCaptureMode> modes_of_stream_buffers;  ///< at each allocation and release
  CUstreamCaptureStatus capture_status = CU_STREAM_CAPTURE_STATUS_NONE;
  CUstream last_stream = nullptr;
  CUdeviceptr device_pointer = 0;  ///< the answer to pointer queries
  CUlaunchConfig launch{};

  /// Records a call; `act` runs unless the call is to fail.
  template <class Act>
  CUresult call(const char* name, Act act) {
    calls.emplace_back(name);
    if (const auto found = results.find(name); found != results.end()) return found->second;
    act();
    return CUDA_SUCCESS;
  }

  template <class Handle>
  CUresult create(const char* name, Handle* out) {
    return call(name, [&] {
      const std::uintptr_t handle = next_handle++;
      live.insert(handle);
      std::memcpy(out, &handle, sizeof handle);
    });
  }

  template <class Handle>
  CUresult destroy(const char* name, Handle handle) {
    static_assert(sizeof handle == sizeof(std::uintptr_t));
    std::uintptr_t value = 0;
    std::memcpy(&value, &handle, sizeof value);
    return call(name, [&] {
      if (live.erase(value) == 0) FAIL_CHECK(name, " of something that is not live");
    });
  }

  int count(const std::string& name) const {
    int total = 0;
    for (const std::string& made : calls) total += made == name;
    return total;
  }
};

inline StubDriver& stub() {
  static StubDriver driver;
  return driver;
}

inline void fill_device_calls(DriverApi& api) {
  api.init = [](unsigned) { return stub().call("init", [] {}); };
  api.driver_get_version = [](int* out) {
    return stub().call("version", [&] { *out = stub().version; });
  };
  api.get_error_name = [](CUresult result, const char** out) {
    if (result != CUDA_ERROR_OUT_OF_MEMORY) return CUDA_ERROR_INVALID_VALUE;
    *out = "CUDA_ERROR_OUT_OF_MEMORY";
    return CUDA_SUCCESS;
  };
  api.get_error_string = [](CUresult, const char** out) {
    *out = "out of memory";
    return CUDA_SUCCESS;
  };
  api.device_get_count = [](int* out) {
    return stub().call("device_count", [&] { *out = stub().device_count; });
  };
  api.device_get = [](CUdevice* out, int ordinal) {
    return stub().call("device_get", [&] { *out = ordinal; });
  };
  api.device_get_name = [](char* out, int size, CUdevice) {
    return stub().call("device_name",
                       [&] { std::strncpy(out, "Stub 9000", static_cast<std::size_t>(size)); });
  };
  api.device_get_attribute = [](int* out, CUdevice_attribute which, CUdevice) {
    return stub().call("device_attribute", [&] { *out = stub().device_attributes[which]; });
  };
  api.device_total_mem = [](std::size_t* out, CUdevice) {
    return stub().call("total_mem", [&] { *out = std::size_t{80} << 30; });
  };
}

inline void fill_context_calls(DriverApi& api) {
  api.primary_ctx_retain = [](CUcontext* out, CUdevice) { return stub().create("retain", out); };
  api.primary_ctx_release = [](CUdevice) {
    // The driver counts per device; the stub has one device.
    return stub().call("release", [] {
      if (!stub().live.empty()) stub().live.erase(stub().live.begin());
    });
  };
  api.ctx_push_current = [](CUcontext context) {
    return stub().call("push", [&] { stub().contexts.push_back(context); });
  };
  api.ctx_pop_current = [](CUcontext* out) {
    return stub().call("pop", [&] {
      *out = stub().contexts.back();
      stub().contexts.pop_back();
    });
  };
  api.ctx_get_current = [](CUcontext* out) {
    return stub().call("current",
                       [&] { *out = stub().contexts.empty() ? nullptr : stub().contexts.back(); });
  };
  api.ctx_get_device = [](CUdevice* out) { return stub().call("ctx_device", [&] { *out = 0; }); };
  api.ctx_get_id = [](CUcontext context, unsigned long long* out) {
    if (context == nullptr && stub().contexts.empty()) return CUDA_ERROR_INVALID_CONTEXT;
    if (context == nullptr) context = stub().contexts.back();
    return stub().call("ctx_id", [&] { *out = reinterpret_cast<std::uintptr_t>(context) + 7; });
  };
}

inline void fill_kernel_calls(DriverApi& api) {
  api.library_load_data = [](CUlibrary* out, const void*, CUjit_option*, void**, unsigned,
                             CUlibraryOption*, void**, unsigned) {
    stub().mode_at_load = stub().capture_mode;
    return stub().create("library_load", out);
  };
  api.library_unload = [](CUlibrary library) { return stub().destroy("library_unload", library); };
  api.library_get_kernel = [](CUkernel* out, CUlibrary, const char*) {
    return stub().call("get_kernel", [&] { *out = reinterpret_cast<CUkernel>(0x11); });
  };
  api.kernel_get_function = [](CUfunction* out, CUkernel kernel) {
    return stub().call("get_function", [&] { *out = reinterpret_cast<CUfunction>(kernel); });
  };
  api.func_set_attribute = [](CUfunction, CUfunction_attribute which, int value) {
    return stub().call("func_set", [&] { stub().function_attributes[which] = value; });
  };
  api.func_get_attribute = [](int* out, CUfunction_attribute which, CUfunction) {
    return stub().call("func_get", [&] { *out = stub().function_attributes[which]; });
  };
  api.launch_kernel_ex = [](const CUlaunchConfig* config, CUfunction, void**, void**) {
    return stub().call("launch", [&] { stub().launch = *config; });
  };
}

inline void fill_memory_calls(DriverApi& api) {
  api.mem_alloc = [](CUdeviceptr* out, std::size_t) { return stub().create("alloc", out); };
  api.mem_free = [](CUdeviceptr pointer) { return stub().destroy("free", pointer); };
  api.mem_alloc_async = [](CUdeviceptr* out, std::size_t, CUstream stream) {
    stub().last_stream = stream;
    stub().modes_of_stream_buffers.push_back(stub().capture_mode);
    return stub().create("alloc_async", out);
  };
  api.mem_free_async = [](CUdeviceptr pointer, CUstream stream) {
    stub().last_stream = stream;
    stub().modes_of_stream_buffers.push_back(stub().capture_mode);
    return stub().destroy("free_async", pointer);
  };
  // "Device memory" of the copies is host memory here.
  api.memcpy_htod_async = [](CUdeviceptr to, const void* from, std::size_t bytes, CUstream stream) {
    stub().last_stream = stream;
    return stub().call("htod", [&] { std::memcpy(reinterpret_cast<void*>(to), from, bytes); });
  };
  api.memcpy_dtoh_async = [](void* to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
    stub().last_stream = stream;
    return stub().call("dtoh", [&] { std::memcpy(to, reinterpret_cast<void*>(from), bytes); });
  };
  api.memcpy_dtod_async = [](CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream) {
    return stub().call("dtod", [&] {
      std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes);
    });
  };
  api.memset_d8_async = [](CUdeviceptr to, unsigned char value, std::size_t bytes, CUstream) {
    return stub().call("memset", [&] { std::memset(reinterpret_cast<void*>(to), value, bytes); });
  };
  api.pointer_get_attribute = [](void* out, CUpointer_attribute, CUdeviceptr) {
    return stub().call(
        "pointer", [&] { std::memcpy(out, &stub().device_pointer, sizeof stub().device_pointer); });
  };
}

inline void fill_stream_calls(DriverApi& api) {
  api.stream_create = [](CUstream* out, unsigned) { return stub().create("stream", out); };
  api.stream_destroy = [](CUstream stream) { return stub().destroy("stream_destroy", stream); };
  api.stream_synchronize = [](CUstream stream) {
    stub().last_stream = stream;
    return stub().call("synchronize", [] {});
  };
  api.stream_is_capturing = [](CUstream, CUstreamCaptureStatus* out) {
    return stub().call("is_capturing", [&] { *out = stub().capture_status; });
  };
  api.stream_begin_capture = [](CUstream, CUstreamCaptureMode) {
    return stub().call("begin_capture", [] {});
  };
  api.stream_end_capture = [](CUstream, CUgraph* out) { return stub().create("end_capture", out); };
  api.exchange_capture_mode = [](CUstreamCaptureMode* mode) {
    return stub().call("exchange", [&] { std::swap(*mode, stub().capture_mode); });
  };
}

inline void fill_event_and_graph_calls(DriverApi& api) {
  api.event_create = [](CUevent* out, unsigned) { return stub().create("event", out); };
  api.event_destroy = [](CUevent event) { return stub().destroy("event_destroy", event); };
  api.event_record = [](CUevent, CUstream stream) {
    stub().last_stream = stream;
    return stub().call("record", [] {});
  };
  api.event_synchronize = [](CUevent) { return stub().call("event_synchronize", [] {}); };
  api.event_elapsed_time = [](float* out, CUevent start, CUevent end) {
    return stub().call("elapsed", [&] {
      *out = static_cast<float>(reinterpret_cast<std::intptr_t>(end) -
                                reinterpret_cast<std::intptr_t>(start));
    });
  };
  api.graph_instantiate = [](CUgraphExec* out, CUgraph, unsigned long long) {
    return stub().create("instantiate", out);
  };
  api.graph_destroy = [](CUgraph graph) { return stub().destroy("graph_destroy", graph); };
  api.graph_exec_destroy = [](CUgraphExec exec) { return stub().destroy("exec_destroy", exec); };
  api.graph_launch = [](CUgraphExec, CUstream stream) {
    stub().last_stream = stream;
    return stub().call("graph_launch", [] {});
  };
}

inline DriverApi stub_api() {
  DriverApi api;
  fill_device_calls(api);
  fill_context_calls(api);
  fill_kernel_calls(api);
  fill_memory_calls(api);
  fill_stream_calls(api);
  fill_event_and_graph_calls(api);
  return api;
}

inline StubDriver& reset_stub() {
  stub() = StubDriver();
  return stub();
}

}  // namespace attnjit::cuda
