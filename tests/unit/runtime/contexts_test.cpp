// Calls in several CUDA contexts, on devices that do not exist.
#include <doctest/doctest.h>

#include <set>
#include <vector>

#include "runtime/load/plan_loader.hpp"
#include "unit/silent_driver.hpp"
#include "unit/tuning_fixtures.hpp"

using namespace attnjit;

namespace runtime_contexts_test {
using attnjit::test::FakeDevice;
using attnjit::test::Machine;
using runtime::Dispatcher;

namespace {

/// A CUDA context; the driver gives each an id of its own, though not an address.
struct FakeContext {
  unsigned long long id;
  int sm_count;
};

FakeContext* current = nullptr;
std::vector<unsigned long long> launched;  // ids of the contexts that the functions belong to

std::shared_ptr<const cuda::Driver> driver_of_contexts() {
  cuda::DriverApi api = test::silent_api();
  api.ctx_get_current = [](CUcontext* out) {
    return *out = reinterpret_cast<CUcontext>(current), CUDA_SUCCESS;
  };
  api.ctx_get_id = [](CUcontext context, unsigned long long* out) {
    const auto* const one = context == nullptr ? current : reinterpret_cast<FakeContext*>(context);
    if (one == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    return *out = one->id, CUDA_SUCCESS;
  };
  api.device_get_attribute = [](int* out, CUdevice_attribute which, CUdevice) {
    *out = which == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? 8
           : which == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT   ? current->sm_count
                                                                 : 0;
    return CUDA_SUCCESS;
  };
  api.kernel_get_function = [](CUfunction* out, CUkernel) {
    return *out = reinterpret_cast<CUfunction>(current->id), CUDA_SUCCESS;
  };
  api.launch_kernel_ex = [](const CUlaunchConfig*, CUfunction function, void**, void**) {
    return launched.push_back(reinterpret_cast<std::uintptr_t>(function)), CUDA_SUCCESS;
  };
  return std::make_shared<const cuda::Driver>(api);
}

// Launches the small forward in `context`; the contexts whose functions ran.
std::set<unsigned long long> run(Dispatcher& dispatcher, FakeContext& context) {
  current = &context;
  launched.clear();
  dispatcher.forward(test::small_args(), nullptr, {});
  return {launched.begin(), launched.end()};
}

}  // namespace

TEST_CASE("a call runs the kernels that are loaded into the current context") {
  using Ids = std::set<unsigned long long>;
  Dispatcher dispatcher(test::environment({{"ATTNJIT_CACHE_DIR", "0"}, {"DISABLE_AUTOTUNE", "1"}}),
                        {}, driver_of_contexts());
  FakeContext one{101, 132}, other{102, 114};
  for (int i = 0; i < 3; ++i) {
    CHECK(run(dispatcher, one) == Ids{101});
    CHECK(run(dispatcher, other) == Ids{102});
  }
  CHECK(dispatcher.counters().plans == 2);
  const auto compiles = dispatcher.counters().compiles;

  // A context that is made where one was destroyed may have its address, and has none of its
  // kernels.
  one.id = 103;
  for (int i = 0; i < 3; ++i) CHECK(run(dispatcher, one) == Ids{103});
  CHECK(run(dispatcher, other) == Ids{102});
  CHECK(dispatcher.counters().plans == 3);
  CHECK(dispatcher.counters().compiles == compiles);
}

TEST_CASE("devices of two kinds in one process are tuned each for itself") {
  const Machine machine;
  const FakeDevice device;
  test::compile_candidates<problem::Problem, runtime::ForwardTuner>(machine, device,
                                                                    test::small_problem());
  const auto dispatcher = machine.dispatch(device);
  cuda::StubDriver& stub = cuda::stub();
  for (const int sm_count : {132, 114, 132, 114}) {
    stub.device_attributes[CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT] = sm_count;
    stub.contexts.back() = reinterpret_cast<CUcontext>(static_cast<std::uintptr_t>(sm_count));
    dispatcher->prepare_forward(test::small_args());
  }
  CHECK(dispatcher->counters().plans == 2);
  CHECK(dispatcher->counters().tunes == 2);
  runtime::Engine next = machine.start();
  for (const int sm_count : {132, 114}) {
    stub.device_attributes[CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT] = sm_count;
    const auto kind = runtime::device_class(cuda::current_device(*device));
    CHECK(kind.sm_count == sm_count);
    CHECK(next.records().find_exact(tuner::TuneKey{kind, problem::plan_key(test::small_problem()),
                                                   next.space<problem::PlanKey>().name()}));
  }
}

}  // namespace runtime_contexts_test
