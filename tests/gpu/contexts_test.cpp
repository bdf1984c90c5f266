// Calls in several CUDA contexts and on several devices, and after a context was destroyed.
#include <dlfcn.h>

#include "gpu.hpp"
#include "runtime/call/dispatcher.hpp"
#include "unit/temp_directory.hpp"

namespace attnjit {
namespace {

using runtime::Dispatcher;
using test::TempDirectory;

base::Environment environment_in(const TempDirectory& directory) {
  base::Environment environment = base::process_environment();
  environment.cache_directory = directory.path();
  return environment;
}

// A problem whose plan has two steps, right in the current context.
void expect_right(Dispatcher& dispatcher, const cuda::Driver& driver) {
  instance::HostProblem problem(
      {.batch = 1, .heads_q = 4, .heads_kv = 2, .seqlen_q = 100, .seqlen_kv = 200, .mask = "b1qk"},
      4);
  const check::Verdict verdict = gpu_test::run(dispatcher, driver, problem);
  INFO(verdict.text);
  CHECK(verdict.pass);
}

/// Entry points of libcuda that the library does not use.
struct ContextCalls {
  CUresult (*create)(CUcontext*, unsigned, CUdevice) = nullptr;
  CUresult (*destroy)(CUcontext) = nullptr;

  ContextCalls() {
    void* const libcuda = ::dlopen("libcuda.so.1", RTLD_NOW);
    REQUIRE(libcuda != nullptr);
    create = reinterpret_cast<decltype(create)>(::dlsym(libcuda, "cuCtxCreate_v2"));
    destroy = reinterpret_cast<decltype(destroy)>(::dlsym(libcuda, "cuCtxDestroy_v2"));
  }
};

/// A context of its own on the first device, current only inside of use().
class OwnContext {
 public:
  OwnContext(const cuda::Driver& driver, const ContextCalls& calls)
      : driver_(driver), calls_(calls) {
    CUdevice device = 0;
    driver.check(driver.api().device_get(&device, 0), "open the device");
    driver.check(calls.create(&context_, 0, device), "create a context");
    pop();
  }
  ~OwnContext() { calls_.destroy(context_); }
  OwnContext(const OwnContext&) = delete;
  OwnContext& operator=(const OwnContext&) = delete;

  template <class Work>
  void use(Work work) const {
    driver_.check(driver_.api().ctx_push_current(context_), "make the context current");
    work();
    pop();
  }

 private:
  void pop() const {
    CUcontext popped = nullptr;
    driver_.check(driver_.api().ctx_pop_current(&popped), "leave the context");
  }

  const cuda::Driver& driver_;
  const ContextCalls& calls_;
  CUcontext context_ = nullptr;
};

TEST_CASE("contexts: each has kernels of its own, and one that is gone leaves the others alone") {
  ATTNJIT_NEED_GPU(gpu);
  const TempDirectory directory;
  Dispatcher dispatcher(environment_in(directory), {}, gpu.driver);
  const ContextCalls calls;
  if (calls.create == nullptr || calls.destroy == nullptr) {
    ATTNJIT_SKIP("this driver makes no contexts beside the primary one");
  }
  const OwnContext one(*gpu.driver, calls);
  const auto call = [&] { expect_right(dispatcher, *gpu.driver); };
  {
    const OwnContext other(*gpu.driver, calls);
    one.use(call);
    const auto compiles = dispatcher.counters().compiles;
    other.use(call);
    one.use(call);
    CHECK(dispatcher.counters().plans == 2);
    CHECK(dispatcher.counters().compiles == compiles);
  }
  const OwnContext next(*gpu.driver, calls);
  next.use(call);
  one.use(call);
  CHECK(dispatcher.counters().plans == 3);
}

TEST_CASE("contexts: a primary context that is destroyed and made again gets its kernels anew") {
  if (gpu_test::find_gpu() == nullptr) ATTNJIT_SKIP("this machine has no GPU");
  const TempDirectory directory;
  const auto driver = cuda::Driver::load();
  Dispatcher dispatcher(environment_in(directory), {}, driver);
  for (unsigned plans = 1; plans <= 3; ++plans) {
    const cuda::PrimaryContext primary(*driver);
    expect_right(dispatcher, *driver);
    CHECK(dispatcher.counters().plans == plans);
  }
}

TEST_CASE("contexts: two devices run one problem, each with kernels of its own") {
  ATTNJIT_NEED_GPU(gpu);
  if (cuda::devices(*gpu.driver).size() < 2) ATTNJIT_SKIP("this machine has one GPU");
  const TempDirectory directory;
  Dispatcher dispatcher(environment_in(directory), {}, gpu.driver);
  expect_right(dispatcher, *gpu.driver);
  const cuda::PrimaryContext second(*gpu.driver, 1);
  expect_right(dispatcher, *gpu.driver);
  {
    const cuda::PrimaryContext first(*gpu.driver, 0);
    expect_right(dispatcher, *gpu.driver);
  }
  CHECK(dispatcher.counters().plans == 2);
}

}  // namespace
}  // namespace attnjit
