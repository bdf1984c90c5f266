#pragma once
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "attnjit/attnjit.hpp"
#include "base/environment.hpp"
#include "check/device_mirror.hpp"
#include "check/verdict.hpp"
#include "cuda/device.hpp"
#include "cuda/stream.hpp"
#include "skip.hpp"
#include "tuner/config_zero.hpp"

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

inline unsigned all_cores() { return std::max(1u, std::thread::hardware_concurrency()); }

/// Calls call(mirror, stream) on a mirror of `problem` and brings back what it wrote.
template <class Call>
void run_on_mirror(const cuda::Driver& driver, instance::HostProblem& problem, Call call) {
  problem.poison_outputs();
  check::DeviceMirror mirror(driver, problem);
  const cuda::Stream stream(driver);
  call(mirror, stream.get());
  stream.synchronize();
  mirror.download(problem);
}

/// Runs `problem` once and judges every row (or those of `rows`). `context` is a Context or a
/// runtime::Dispatcher.
template <class AnyContext>
check::Verdict run(AnyContext& context, const cuda::Driver& driver, instance::HostProblem& problem,
                   const reference::Rows& rows = reference::Rows::every(), unsigned jobs = 1) {
  run_on_mirror(driver, problem, [&](check::DeviceMirror& mirror, CUstream stream) {
    mirror.prepare_mask(context, stream);
    context.forward(mirror.args(), stream);
  });
  return check::judge_forward(problem, rows, jobs);
}

/// Runs a backward problem once and judges every plane (or those of `planes`).
template <class AnyContext>
check::BackwardVerdict run_backward(AnyContext& context, const cuda::Driver& driver,
                                    instance::HostProblem& problem,
                                    const reference::Planes& planes = reference::Planes::every(),
                                    unsigned jobs = 1) {
  run_on_mirror(driver, problem, [&](check::DeviceMirror& mirror, CUstream stream) {
    mirror.prepare_mask(context, stream);
    context.backward(mirror.backward_args(), stream);
  });
  return check::judge_backward(problem, planes, jobs);
}

/// Runs a forward or backward problem of any spec and checks that it is right.
inline void expect_problem(Gpu& gpu, const instance::ProblemSpec& spec) {
  instance::HostProblem problem(spec, all_cores());
  INFO(instance::describe(spec));
  const auto expect = [](const auto& verdict) {
    INFO(verdict.text);
    CHECK(verdict.pass);
  };
  if (spec.backward) {
    expect(
        run_backward(gpu.context, *gpu.driver, problem, reference::Planes::every(), all_cores()));
  } else {
    expect(run(gpu.context, *gpu.driver, problem, reference::Rows::every(), all_cores()));
  }
}

/// Checks that configuration 0 has the dk and dv of a backward problem by wgmma on Hopper.
inline void expect_wgmma(const instance::HostProblem& problem) {
  const auto key = problem::plan_key(problem::make_problem(problem.backward_args()));
  const auto config = tuner::config_zero(key, codegen::find_arch("sm_90a"));
  CHECK(config.dkv.path == codegen::Path::kWgmma);
}

/// The message with which an invalid call fails; empty if it succeeds.
template <class Call>
std::string refusal(Call call) {
  try {
    call();
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kInvalidProblem);
    return error.what();
  }
  return "";
}

/// A problem whose plan has two steps and a workspace.
inline instance::ProblemSpec masked_problem() {
  return {.batch = 2,
          .heads_q = 8,
          .heads_kv = 2,
          .seqlen_q = 300,
          .seqlen_kv = 500,
          .head_dim = 64,
          .mask = "b1qk"};
}

/// That of this process, in which calls are tuned, with a cache in `directory`.
inline base::Environment tuning_environment(const std::filesystem::path& directory) {
  base::Environment environment = base::process_environment();
  environment.disable_autotune = false;
  environment.autotune = base::AutotuneMode::kOn;
  environment.cache_directory = directory;
  return environment;
}

inline instance::ProblemSpec causal(instance::ProblemSpec spec, Diagonal diagonal) {
  spec.causal = true;
  spec.diagonal = diagonal;
  return spec;
}

}  // namespace attnjit::gpu_test

/// Declares `name`, the Gpu, or ends the test as a skip.
#define ATTNJIT_NEED_GPU(name)                                          \
  const auto name##_owner = gpu_test::find_gpu();                       \
  if (name##_owner == nullptr) ATTNJIT_SKIP("this machine has no GPU"); \
  gpu_test::Gpu& name = *name##_owner
