#pragma once
#include <doctest/doctest.h>

#include <memory>
#include <optional>
#include <string>

#include "attnjit/attnjit.hpp"
#include "base/environment.hpp"
#include "check/device_mirror.hpp"
#include "check/verdict.hpp"
#include "cuda/device.hpp"
#include "cuda/stream.hpp"

namespace attnjit::gpu_test {

/// The first GPU with its primary context current on this thread, and an attnjit context.
struct Gpu {
  std::shared_ptr<const cuda::Driver> driver;
  cuda::PrimaryContext primary;
  Context context;

  explicit Gpu(std::shared_ptr<const cuda::Driver> d)
      : driver(std::move(d)), primary(*driver), context() {}
  // Under DISABLE_AUTOTUNE, which scripts/test sets, nothing that a test does is timed.
  ~Gpu() {
    if (base::process_environment().disable_autotune) {
      CHECK(context.counters().timing_launches == 0);
    }
  }
};

/// The GPU, or null where there is none.
inline std::unique_ptr<Gpu> find_gpu() {
  try {
    return std::make_unique<Gpu>(cuda::Driver::load());
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kNoDevice) throw;
    return nullptr;
  }
}

/// Runs `problem` once and judges every row (or those of `rows`).
inline check::Verdict run(Context& context, const cuda::Driver& driver,
                          reference::HostProblem& problem,
                          const reference::Rows& rows = reference::Rows::every(),
                          unsigned jobs = 1) {
  problem.poison_outputs();
  check::DeviceMirror mirror(driver, problem);
  const cuda::Stream stream(driver);
  context.forward(mirror.args(), stream.get());
  stream.synchronize();
  mirror.download(problem);
  return check::judge_forward(problem, rows, jobs);
}

}  // namespace attnjit::gpu_test

/// Declares `name`, the Gpu, or ends the test with the message that CTest counts as a skip.
#define ATTNJIT_NEED_GPU(name)                    \
  const auto name##_owner = gpu_test::find_gpu(); \
  if (name##_owner == nullptr) {                  \
    MESSAGE("skipped: this machine has no GPU");  \
    return;                                       \
  }                                               \
  gpu_test::Gpu& name = *name##_owner
