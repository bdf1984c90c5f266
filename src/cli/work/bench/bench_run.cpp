#include "cli/work/bench/bench_run.hpp"

#include <algorithm>

#include "attnjit/error.hpp"
#include "base/json.hpp"
#include "cli/work/bench/clock_samples.hpp"
#include "cli/work/host_memory.hpp"

namespace attnjit::cli {
namespace {

constexpr int kWarmUps = 3;
constexpr double kRoundMs = 25;  // of kernel time that a round aims at
constexpr double kLeastLaunches = 5, kMostLaunches = 100;

void check_case(const Case& job) {
  if (is_empty(job.spec)) {
    throw Error(ErrorKind::kInvalidProblem,
                "the output has no elements, so there is nothing to time; choose sizes above 0");
  }
  check_host_memory(tensor_bytes(job.spec), "the tensors",
                    "choose a smaller batch or shorter sequences");
}

}  // namespace

Bench::Bench(Session& session, std::optional<codegen::Path> path, bool samples_clock)
    : session_(session),
      driver_(session.driver()),
      current_(driver_),
      device_(cuda::current_device(driver_)),
      clock_(samples_clock ? cuda::SmClock::find(driver_, device_.ordinal) : std::nullopt),
      planner_(session.engine(), std::nullopt, session.device_classes(), path),
      stream_(driver_),
      timer_(driver_),
      dispatcher_(session.environment(), session.log_sink(), nullptr, {}, path) {}

Measurement Bench::measure(const Case& job) {
  check_case(job);
  instance::ProblemSpec spec = job.spec;
  spec.leave_out = spec.backward;
  const instance::HostProblem host(spec, session_.environment().jobs);
  check::DeviceMirror mirror(driver_, host);
  mirror.prepare_mask(dispatcher_, stream_.get());
  Measurement measured = spec.backward ? time_backward(mirror) : time_forward(mirror);
  measured.work = count_work(host.args(), spec.backward);
  const Planned planned = planner_.plan(job, codegen::find_arch(device_.arch()));
  const Json& main = job.spec.backward ? planned.config["dkv"] : planned.config;
  measured.manifest_line = planned.manifest_line;
  measured.kernel = planned.steps[planned.main_step].spec.source.entry;
  measured.path = main["path"];
  measured.tile = planned.steps[planned.main_step].tile;
  measured.config_from = planned.config_from;
  return measured;
}

Measurement Bench::time_forward(const check::DeviceMirror& mirror) {
  const ForwardArgs args = mirror.args();
  return time(dispatcher_.forward_workspace_size(args), [&](const Workspace& workspace) {
    dispatcher_.forward(args, stream_.get(), workspace);
  });
}

Measurement Bench::time_backward(const check::DeviceMirror& mirror) {
  const BackwardArgs args = mirror.backward_args();
  dispatcher_.forward(args.forward, stream_.get());  // writes out and lse
  return time(dispatcher_.backward_workspace_size(args), [&](const Workspace& workspace) {
    dispatcher_.backward(args, stream_.get(), workspace);
  });
}

Measurement Bench::time(std::size_t workspace_bytes,
                        const std::function<void(const Workspace&)>& call) {
  const cuda::DeviceBuffer scratch(driver_, workspace_bytes);
  const auto median_ms = [&](int launches) {
    return timer_.median_ms(stream_.get(), launches, [&] {
      call({scratch.data(), scratch.bytes()});
    });
  };
  median_ms(kWarmUps);  // wakes the clocks up
  const int launches =
      static_cast<int>(std::clamp(kRoundMs / median_ms(kWarmUps), kLeastLaunches, kMostLaunches));

  Measurement measured;
  std::optional<ClockSamples> samples;
  if (clock_) samples.emplace([clock = *clock_] { return clock.mhz(); });
  for (int round = 0; round < kRounds; ++round) measured.round_ms.push_back(median_ms(launches));
  if (samples) measured.clock_mhz = samples->median();
  std::ranges::sort(measured.round_ms);
  measured.workspace_bytes = scratch.bytes();
  return measured;
}

}  // namespace attnjit::cli
