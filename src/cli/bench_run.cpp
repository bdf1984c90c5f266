#include "cli/bench_run.hpp"

#include <algorithm>

#include "attnjit/error.hpp"
#include "check/device_mirror.hpp"
#include "cli/host_memory.hpp"
#include "codegen/render.hpp"

namespace attnjit::cli {
namespace {

constexpr int kWarmUps = 3;
constexpr double kRoundMs = 25;  // of kernel time that a round aims at
constexpr double kLeastLaunches = 5, kMostLaunches = 100;

ContextOptions context_options(Session& session) {
  ContextOptions options;
  options.log = [&session](std::string_view message) {
    session.console().note("attnjit: {}", message);
  };
  return options;
}

void check_case(const Case& job) {
  if (make_problem(job.spec).empty()) {
    throw Error(ErrorKind::kInvalidProblem,
                "the output has no elements, so there is nothing to time; choose sizes above 0");
  }
  check_host_memory(tensor_bytes(job.spec), "the tensors",
                    "choose a smaller batch or shorter sequences");
}

}  // namespace

Bench::Bench(Session& session)
    : session_(session),
      driver_(session.driver()),
      current_(driver_),
      device_(cuda::current_device(driver_)),
      planner_(session.engine(), std::nullopt, session.device_classes()),
      stream_(driver_),
      timer_(driver_),
      context_(context_options(session)) {}

Measurement Bench::measure(const Case& job) {
  check_case(job);
  const reference::HostProblem host(job.spec, session_.environment().jobs);
  const check::DeviceMirror mirror(driver_, host);
  const ForwardArgs args = mirror.args();
  const cuda::DeviceBuffer scratch(driver_, context_.forward_workspace_size(args));
  const auto time = [&](int launches) {
    return timer_.median_ms(stream_.get(), launches, [&] {
      context_.forward(args, stream_.get(), {scratch.data(), scratch.bytes()});
    });
  };
  time(kWarmUps);  // wakes the clocks up
  const int launches =
      static_cast<int>(std::clamp(kRoundMs / time(kWarmUps), kLeastLaunches, kMostLaunches));

  Measurement measured;
  for (int round = 0; round < kRounds; ++round) measured.round_ms.push_back(time(launches));
  std::ranges::sort(measured.round_ms);
  measured.work = count_work(host.args());
  measured.workspace_bytes = scratch.bytes();
  const Planned planned = planner_.plan(job, codegen::find_arch(device_.arch()));
  measured.tile = codegen::describe_tile(planned.config);
  measured.config_from = planned.config_from;
  return measured;
}

}  // namespace attnjit::cli
