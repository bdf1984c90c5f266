#include "cli/work/device_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "check/device_mirror.hpp"
#include "cuda/device.hpp"
#include "cuda/stream.hpp"
#include "runtime/call/dispatcher.hpp"

namespace attnjit::cli {
namespace {

class DeviceRunner final : public Runner {
 public:
  DeviceRunner(Session& session, std::optional<codegen::Path> path)
      : console_(session.console()),
        driver_(session.driver()),
        current_(driver_),
        dispatcher_(session.environment(), session.log_sink(), nullptr, {}, path),
        jobs_(session.environment().jobs) {}

  std::string device() const override {
    const cuda::DeviceInfo device = cuda::current_device(driver_);
    return fmt::format("{} ({})", device.name, device.arch());
  }

  RunResult run(const Case& job, const Sample& sample) override {
    is_empty(job.spec);  // throws before memory is filled for a problem that cannot run
    check_run_memory(job, sample, 1);
    instance::HostProblem host(job.spec, jobs_);
    note_outside_reads(job.name, host, console_);
    RunResult result;
    {
      const cuda::Stream stream(driver_);
      check::DeviceMirror mirror(driver_, host);
      mirror.prepare_mask(dispatcher_, stream.get());
      const auto call = [&] {
        if (job.spec.backward) {
          dispatcher_.backward(mirror.backward_args(), stream.get());
        } else {
          dispatcher_.forward(mirror.args(), stream.get());
        }
      };
      call();
      stream.synchronize();
      mirror.download(host);
      result.rough_ms = median_launch(call, stream);
    }
    judge(host, sample, jobs_, result);
    return result;
  }

  std::string counters() const override {
    const Counters counters = dispatcher_.counters();
    return fmt::format("{} plans, {} kernels compiled, {} read from the cache", counters.plans,
                       counters.compiles, counters.disk_hits);
  }

 private:
  template <class Call>
  double median_launch(Call call, const cuda::Stream& stream) {
    const cuda::Event begin(driver_);
    const cuda::Event end(driver_);
    std::array<float, 5> times;
    for (float& time : times) {
      begin.record(stream.get());
      call();
      end.record(stream.get());
      end.synchronize();
      time = end.elapsed_ms(begin);
    }
    std::ranges::sort(times);
    return times[times.size() / 2];
  }

  Console& console_;
  const cuda::Driver& driver_;
  const cuda::PrimaryContext current_;
  runtime::Dispatcher dispatcher_;
  const unsigned jobs_;
};

}  // namespace

std::unique_ptr<Runner> make_device_runner(Session& session, std::optional<codegen::Path> path) {
  return std::make_unique<DeviceRunner>(session, path);
}

}  // namespace attnjit::cli
