#include "cli/work/device_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "attnjit/context.hpp"
#include "check/device_mirror.hpp"
#include "cuda/device.hpp"
#include "cuda/stream.hpp"

namespace attnjit::cli {
namespace {

class DeviceRunner final : public Runner {
 public:
  explicit DeviceRunner(Session& session)
      : driver_(session.driver()),
        current_(driver_),
        context_(session.context_options()),
        jobs_(session.environment().jobs) {}

  std::string device() const override {
    const cuda::DeviceInfo device = cuda::current_device(driver_);
    return fmt::format("{} ({})", device.name, device.arch());
  }

  RunResult run(const Case& job, const Sample& sample) override {
    is_empty(job.spec);  // throws before memory is filled for a problem that cannot run
    check_run_memory(job, sample, 1);
    instance::HostProblem host(job.spec, jobs_);
    RunResult result;
    {
      const cuda::Stream stream(driver_);
      check::DeviceMirror mirror(driver_, host);
      const auto call = [&] {
        if (job.spec.backward) {
          context_.backward(mirror.backward_args(), stream.get());
        } else {
          context_.forward(mirror.args(), stream.get());
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
    const Counters counters = context_.counters();
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

  const cuda::Driver& driver_;
  const cuda::PrimaryContext current_;
  Context context_;
  const unsigned jobs_;
};

}  // namespace

std::unique_ptr<Runner> make_device_runner(Session& session) {
  return std::make_unique<DeviceRunner>(session);
}

}  // namespace attnjit::cli
