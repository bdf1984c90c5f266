// Measures the time that a warm Context::forward takes on the calling thread, less the launches
// themselves. README.md beside this says how.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <deque>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "attnjit/error.hpp"
#include "base/parallel.hpp"
#include "cuda/device.hpp"
#include "cuda/memory.hpp"
#include "cuda/stream.hpp"
#include "driver_probe.hpp"
#include "runtime/call/dispatcher.hpp"
#include "silent_driver.hpp"
#include "stopwatch.hpp"

namespace attnjit {
namespace {

void print(std::string_view what, Cost cost) {
  fmt::print("  {:<42} {:>8.0f} {:>8.0f}\n", what, cost.p50, cost.p99);
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

// A decode step with keys enough for the host to choose how many thread blocks share them out.
ForwardArgs long_decode_args(Tensors& tensors) {
  ForwardArgs args;
  args.q = tensors.make(DType::kBFloat16, {1, 32, 1, 128});
  args.k = tensors.make(DType::kBFloat16, {1, 8, 8192, 128});
  args.v = tensors.make(DType::kBFloat16, {1, 8, 8192, 128});
  args.out = tensors.make(DType::kBFloat16, {1, 32, 1, 128});
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
    const Round round = measure_in_turns(call);

    fmt::print("{:<44} {:>8} {:>8}\n", title, "p50 ns", "p99 ns");
    print("make_problem", problem_cost(args));
    print("plan look-up", look_up_cost(args));
    print("warm call", round.warm);
    print(fmt::format("bare launches ({})", round.driver.last), round.driver.bare);
    if (round.driver.tensor_maps.p50 != 0) print("bare tensor maps", round.driver.tensor_maps);
    fmt::print("  {:<42} {:>8.0f}\n", "warm call beyond the bare launches", round.beyond());
  }

  /// Warm calls on several threads at once; the slowest thread counts.
  void run_threads(const char* title, const ForwardArgs& args) const {
    fmt::print("{:<44} {:>8} {:>8}\n", title, "p50 ns", "p99 ns");
    for (const unsigned count : {1u, 2u, 4u, 8u}) {
      std::vector<Cost> costs(count);
      base::parallel_for(count, count, [&](std::size_t i) {
        costs[i] = stopwatch_.measure([&] { dispatcher_.forward(args, nullptr); });
      });
      print(fmt::format("warm call, {} threads", count),
            {std::ranges::max(costs, {}, &Cost::p50).p50,
             std::ranges::max(costs, {}, &Cost::p99).p99});
    }
  }

 private:
  struct Round {
    Cost warm;
    DriverProbe::Recording driver;

    double beyond() const { return warm.p50 - driver.bare.p50; }
  };

  // The middle one of several rounds of calls and their launches: clocks drift.
  template <class Call>
  Round measure_in_turns(Call call) const {
    std::array<Round, 5> rounds;
    for (Round& round : rounds) round = {stopwatch_.measure(call), record(call)};
    std::ranges::sort(rounds, {}, &Round::beyond);
    return rounds[rounds.size() / 2];
  }

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

// The kernel that runs does not matter here.
base::Environment untuned_environment() {
  base::Environment environment = base::process_environment();
  environment.disable_autotune = true;
  environment.autotune = base::AutotuneMode::kOff;
  return environment;
}

void run_all(const std::shared_ptr<const cuda::Driver>& driver, Tensors tensors,
             const Stopwatch& stopwatch, CUstream stream) {
  DriverProbe::stopwatch = &stopwatch;
  const auto run = [&](const char* title, const ForwardArgs& args,
                       std::optional<codegen::Path> path = {}, const ForwardArgs* first = nullptr) {
    runtime::Dispatcher dispatcher(untuned_environment(), {}, driver, {}, path);
    if (first != nullptr) dispatcher.forward(*first, stream);
    Bench(dispatcher, *driver, stopwatch).run(title, args, stream, tensors);
  };
  run("plain", plain_args(tensors));
  run("mask, bias and causal", masked_args(tensors));
  run("a token against 8192 keys", long_decode_args(tensors));
  const ForwardArgs prefill = prefill_args(tensors);
  run("prefill, path mma", prefill, codegen::Path::kMma);
  if (codegen::find_arch(cuda::current_device(*driver).arch()).wgmma) {
    run("prefill, path wgmma", prefill, codegen::Path::kWgmma);
    const ForwardArgs elsewhere = prefill_args(tensors);
    run("prefill, path wgmma, tensors elsewhere", elsewhere, codegen::Path::kWgmma, &prefill);
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
  const auto driver = probed(test::silent_hopper_api());
  run_all(driver, Tensors(nullptr), stopwatch, nullptr);
  runtime::Dispatcher dispatcher(untuned_environment(), {}, driver);
  Tensors tensors(nullptr);
  Bench(dispatcher, *driver, stopwatch).run_threads("plain, on threads", plain_args(tensors));
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
