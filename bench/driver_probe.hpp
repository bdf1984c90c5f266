#pragma once
#include <cstddef>
#include <memory>
#include <vector>

#include "cuda/driver.hpp"
#include "stopwatch.hpp"

namespace attnjit {

/// Takes the place of the driver's calls below a Dispatcher. While there is a recording, it times
/// those of one call of the library, with the very parameters that the dispatcher gave them. The
/// members are static because the driver's entry points are plain functions.
struct DriverProbe {
  struct Launch {
    CUlaunchConfig config;
    CUlaunchAttribute attribute;
    CUfunction function;
    void** params;  // they live as long as the call of the library

    void repeat() {
      config.attrs = &attribute;
      real_launch(&config, function, params, nullptr);
    }
  };
  /// The driver's part in one call of the library.
  struct Recording {
    std::vector<Launch> launches;
    std::size_t last = 0;  // at this number of launches the call is complete, and they are timed
    Cost bare;             // of all launches, in their order
    Cost tensor_maps;      // the sum over single ones
  };

  static inline decltype(cuda::DriverApi::launch_kernel_ex) real_launch = nullptr;
  static inline decltype(cuda::DriverApi::tensor_map_encode_tiled) real_encode = nullptr;
  static inline decltype(cuda::DriverApi::tensor_map_replace_address) real_replace = nullptr;
  static inline const Stopwatch* stopwatch = nullptr;
  static inline Recording* recording = nullptr;

  static CUresult launch(const CUlaunchConfig* config, CUfunction function, void** params,
                         void** extra) {
    const CUresult result = real_launch(config, function, params, extra);
    if (recording == nullptr) return result;
    const bool attributed = config->numAttrs != 0;
    recording->launches.push_back(
        {*config, attributed ? *config->attrs : CUlaunchAttribute{}, function, params});
    if (recording->launches.size() != recording->last) return result;
    recording->bare = stopwatch->measure([] {
      for (Launch& each : recording->launches) each.repeat();
    });
    return result;
  }

  template <class... Arguments>
  static CUresult encode(Arguments... arguments) {
    return time_map([&] { return real_encode(arguments...); });
  }
  static CUresult replace(CUtensorMap* map, void* address) {
    return time_map([&] { return real_replace(map, address); });
  }

 private:
  template <class Make>
  static CUresult time_map(Make make) {
    const CUresult result = make();
    if (recording == nullptr || recording->last == 0) return result;
    const Cost cost = stopwatch->measure([&] { make(); });
    recording->tensor_maps.p50 += cost.p50;
    recording->tensor_maps.p99 += cost.p99;
    return result;
  }
};

/// The driver's part in `call`, which makes the same calls of the driver each time.
template <class Call>
DriverProbe::Recording record(Call call) {
  DriverProbe::Recording counted, timed;
  DriverProbe::recording = &counted;
  call();
  timed.last = counted.launches.size();
  DriverProbe::recording = &timed;
  call();
  DriverProbe::recording = nullptr;
  return timed;
}

/// A driver of `api` whose launches and tensor maps go through the probe.
inline std::shared_ptr<const cuda::Driver> probed(cuda::DriverApi api) {
  DriverProbe::real_launch = api.launch_kernel_ex;
  DriverProbe::real_encode = api.tensor_map_encode_tiled;
  DriverProbe::real_replace = api.tensor_map_replace_address;
  api.launch_kernel_ex = DriverProbe::launch;
  api.tensor_map_encode_tiled = DriverProbe::encode;
  api.tensor_map_replace_address = DriverProbe::replace;
  return std::make_shared<const cuda::Driver>(api);
}

}  // namespace attnjit
