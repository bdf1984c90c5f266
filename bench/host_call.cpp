// Measures the time that a warm Context::forward takes on the calling thread, less the launches
// themselves. README.md beside this says how.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "attnjit/error.hpp"
#include "cuda/device.hpp"
#include "cuda/memory.hpp"
#include "cuda/stream.hpp"
#include "runtime/dispatcher.hpp"
#include "silent_driver.hpp"

namespace attnjit {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kSamples = 20000;
constexpr int kBatch = 64;  // calls between two waits for the device, fewer than its queue holds

/// Nanoseconds of one call.
struct Cost {
  double p50 = 0, p99 = 0;
};

void print(const char* what, Cost cost) {
  fmt::print("  {:<42} {:>8.0f} {:>8.0f}\n", what, cost.p50, cost.p99);
}

/// The time of each of kSamples calls of `work`, with what reading the clock takes subtracted.
class Stopwatch {
 public:
  /// `wait` is called now and then, off the clock.
  explicit Stopwatch(std::function<void()> wait) : wait_(std::move(wait)) {
    overhead_ = measure([] {}).p50;
  }

  template <class Work>
  Cost measure(Work work) const {
    std::vector<double> samples;
    samples.reserve(kSamples);
    for (int i = 0; i < kSamples; ++i) {
      if (i % kBatch == 0) wait_();
      const Clock::time_point start = Clock::now();
      work();
      const std::chrono::duration<double, std::nano> spent = Clock::now() - start;
      samples.push_back(spent.count() - overhead_);
    }
    wait_();
    std::ranges::sort(samples);
    return {samples[kSamples / 2], samples[kSamples * 99 / 100]};
  }

 private:
  std::function<void()> wait_;
  double overhead_ = 0;
};

/// Takes the place of the driver's calls below a Dispatcher. While `bare` is set, each of them is
/// repeated kSamples times on the clock, with the very parameters that the dispatcher gave it. The
/// members are static because the driver's entry points are plain functions.
struct DriverProbe {
  /// Sums over the calls of the driver in one call of the library.
  struct Bare {
    Cost launches, tensor_maps;
  };

  static inline decltype(cuda::DriverApi::launch_kernel_ex) real_launch = nullptr;
  static inline decltype(cuda::DriverApi::tensor_map_encode_tiled) real_encode = nullptr;
  static inline const Stopwatch* stopwatch = nullptr;
  static inline Bare* bare = nullptr;

  template <class... Arguments>
  static CUresult launch(Arguments... arguments) {
    return repeat(&Bare::launches, [&] { return real_launch(arguments...); });
  }
  template <class... Arguments>
  static CUresult encode(Arguments... arguments) {
    return repeat(&Bare::tensor_maps, [&] { return real_encode(arguments...); });
  }

  template <class Call>
  static CUresult repeat(Cost Bare::*sum, Call call) {
    if (bare == nullptr) return call();
    CUresult result = CUDA_SUCCESS;
    const Cost cost = stopwatch->measure([&] { result = call(); });
    (bare->*sum).p50 += cost.p50;
    (bare->*sum).p99 += cost.p99;
    return result;
  }
};

std::shared_ptr<const cuda::Driver> probed(cuda::DriverApi api) {
  DriverProbe::real_launch = api.launch_kernel_ex;
  DriverProbe::real_encode = api.tensor_map_encode_tiled;
  api.launch_kernel_ex = DriverProbe::launch;
  api.tensor_map_encode_tiled = DriverProbe::encode;
  return std::make_shared<const cuda::Driver>(api);
}

/// A dense tensor that nothing was written to: its values do not matter, since the kernel's time is
/// not measured.
class Tensors {
 public:
  /// In memory of `driver`'s current context, or at made-up addresses if null.
  explicit Tensors(const cuda::Driver* driver) : driver_(driver) {}

  Tensor make(DType dtype, std::array<std::int64_t, 4> shape) {
    const auto elements = static_cast<std::size_t>(shape[0] * shape[1] * shape[2] * shape[3]);
    return Tensor::contiguous(memory(elements * 2), dtype, shape);
  }
  void* memory(std::size_t bytes) {
    if (driver_ == nullptr) return reinterpret_cast<void*>(next_ += 1u << 30);
    return buffers_.emplace_back(*driver_, bytes).data();
  }

 private:
  const cuda::Driver* driver_;
  std::deque<cuda::DeviceBuffer> buffers_;
  std::uintptr_t next_ = 0;
};

// A decode step: small, so that the device keeps up with the host.
ForwardArgs plain_args(Tensors& tensors) {
  ForwardArgs args;
  args.q = tensors.make(DType::kBFloat16, {1, 4, 1, 64});
  args.k = tensors.make(DType::kBFloat16, {1, 2, 64, 64});
  args.v = tensors.make(DType::kBFloat16, {1, 2, 64, 64});
  args.out = tensors.make(DType::kBFloat16, {1, 4, 1, 64});
  return args;
}

// A short prompt, long enough for tiles of wgmma and for the host to be the slower side.
ForwardArgs prefill_args(Tensors& tensors) {
  ForwardArgs args;
  for (Tensor* const tensor : {&args.q, &args.k, &args.v, &args.out}) {
    *tensor = tensors.make(DType::kBFloat16, {1, 2, 128, 128});
  }
  return args;
}

ForwardArgs masked_args(Tensors& tensors) {
  ForwardArgs args = plain_args(tensors);
  args.mask = tensors.make(DType::kBool, {1, 1, 1, 64});
  args.bias = tensors.make(DType::kBFloat16, {1, 4, 1, 64});
  args.causal = true;
  args.diagonal = Diagonal::kBottomRight;
  return args;
}

class Bench {
 public:
  Bench(runtime::Dispatcher& dispatcher, const cuda::Driver& driver, const Stopwatch& stopwatch)
      : dispatcher_(dispatcher), driver_(driver), stopwatch_(stopwatch) {}

  void run(const char* title, const ForwardArgs& args, CUstream stream, Tensors& tensors) const {
    const std::size_t bytes = dispatcher_.forward_workspace_size(args);
    const Workspace workspace{bytes == 0 ? nullptr : tensors.memory(bytes), bytes};
    const auto call = [&] { dispatcher_.forward(args, stream, workspace); };
    call();
    const Cost warm = stopwatch_.measure(call);
    DriverProbe::Bare bare;
    DriverProbe::bare = &bare;
    call();
    DriverProbe::bare = nullptr;

    fmt::print("{:<44} {:>8} {:>8}\n", title, "p50 ns", "p99 ns");
    print("make_problem", problem_cost(args));
    print("plan look-up", look_up_cost(args));
    print("warm call", warm);
    print("bare launch", bare.launches);
    if (bare.tensor_maps.p50 != 0) print("bare tensor maps", bare.tensor_maps);
    fmt::print("  {:<42} {:>8.0f}\n", "warm call beyond the bare launch",
               warm.p50 - bare.launches.p50);
  }

 private:
  Cost problem_cost(const ForwardArgs& args) const {
    std::int64_t sum = 0;
    const Cost cost = stopwatch_.measure([&] { sum += problem::make_problem(args).seqlen_kv; });
    expect(sum == kSamples * args.k.shape[2]);
    return cost;
  }

  // As Dispatcher::find_plan does it.
  Cost look_up_cost(const ForwardArgs& args) const {
    const problem::Problem problem = problem::make_problem(args);
    const auto key = [&] {
      return runtime::PlanTable::Key{cuda::current_context_id(driver_), problem::plan_key(problem)};
    };
    runtime::PlanTable table;
    table.find_or_make(key(), [] {
      return std::make_unique<launch::ForwardPlan>(launch::ForwardPlanSpec{},
                                                   std::vector<std::unique_ptr<cuda::Library>>{});
    });
    int found = 0;
    const Cost cost = stopwatch_.measure([&] { found += table.find(key()) != nullptr; });
    expect(found == kSamples);
    return cost;
  }

  // The sums also keep the compiler from leaving the work out.
  static void expect(bool right) {
    if (!right) throw Error(ErrorKind::kInternal, "a timed call gave a wrong result");
  }

  runtime::Dispatcher& dispatcher_;
  const cuda::Driver& driver_;
  const Stopwatch& stopwatch_;
};

void run_all(const std::shared_ptr<const cuda::Driver>& driver, Tensors tensors,
             const Stopwatch& stopwatch, CUstream stream) {
  base::Environment environment = base::process_environment();
  environment.disable_autotune = true;  // which kernel runs does not matter here
  environment.autotune = base::AutotuneMode::kOff;
  DriverProbe::stopwatch = &stopwatch;
  const auto run = [&](const char* title, const ForwardArgs& args,
                       std::optional<codegen::Path> path = {}) {
    runtime::Dispatcher dispatcher(environment, {}, driver, {}, path);
    Bench(dispatcher, *driver, stopwatch).run(title, args, stream, tensors);
  };
  run("plain", plain_args(tensors));
  run("mask, bias and causal", masked_args(tensors));
  const ForwardArgs prefill = prefill_args(tensors);
  run("prefill, path mma", prefill, codegen::Path::kMma);
  if (codegen::find_arch(cuda::current_device(*driver).arch()).wgmma) {
    run("prefill, path wgmma", prefill, codegen::Path::kWgmma);
  }
}

void run_on_device() {
  const auto driver = probed(cuda::Driver::load()->api());
  const cuda::PrimaryContext primary(*driver);
  const cuda::Stream stream(*driver);
  fmt::print("on {}\n", cuda::current_device(*driver).name);
  const Stopwatch stopwatch([&] { stream.synchronize(); });
  run_all(driver, Tensors(driver.get()), stopwatch, stream.get());
}

void run_on_host() {
  fmt::print("through a driver that does nothing\n");
  const Stopwatch stopwatch([] {});
  run_all(probed(test::silent_hopper_api()), Tensors(nullptr), stopwatch, nullptr);
}

}  // namespace
}  // namespace attnjit

int main(int argc, char** argv) try {
  const bool on_device = argc == 2 && std::string_view(argv[1]) == "--device";
  if (argc > 1 && !on_device) {
    fmt::print(stderr, "usage: bench_host_call [--device]\n");
    return 2;
  }
  on_device ? attnjit::run_on_device() : attnjit::run_on_host();
} catch (const std::exception& error) {
  fmt::print(stderr, "bench_host_call: {}\n", error.what());
  return 1;
}
