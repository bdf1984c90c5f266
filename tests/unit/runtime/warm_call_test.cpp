// The cost of a call to the host once its plan is there: nothing but arithmetic and the driver's
// calls.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <mutex>
#include <shared_mutex>
#include <string>

#include "runtime/call/dispatcher.hpp"
#include "unit/backward_fixtures.hpp"
#include "unit/host_calls.hpp"
#include "unit/runtime_fixtures.hpp"
#include "unit/silent_driver.hpp"

using namespace attnjit;
using runtime::Dispatcher;
using test::count_host_calls;
using test::HostCalls;
using test::makes_system_calls;

namespace {

constexpr int kCalls = 1000;

using Launch = decltype(cuda::DriverApi::launch_kernel_ex);

int launches = 0;

CUresult count_launch(const CUlaunchConfig*, CUfunction, void**, void**) {
  ++launches;
  return CUDA_SUCCESS;
}

// A dispatcher that compiles for real and launches through `launch`; `api` has all other calls of
// the driver.
class WarmDispatcher {
 public:
  explicit WarmDispatcher(Launch launch = count_launch,
                          const cuda::DriverApi& api = test::silent_api())
      : dispatcher_(test::environment({{"ATTNJIT_CACHE_DIR", "0"}, {"DISABLE_AUTOTUNE", "1"}}), {},
                    driver(launch, api)) {}

  // The host calls of kCalls calls that find their plan, each of `steps` kernels.
  HostCalls count(const ForwardArgs& args, Workspace workspace = {}, int steps = 1) {
    return count([&] { dispatcher_.forward(args, nullptr, workspace); }, steps);
  }
  HostCalls count(const BackwardArgs& args, Workspace workspace, int steps) {
    return count([&] { dispatcher_.backward(args, nullptr, workspace); }, steps);
  }

  // Those of calls that have one plan, and each strides of its own.
  HostCalls count_shapes(ForwardArgs args) {
    const auto call = [&] {
      args.q.strides[0] += 16;
      dispatcher_.forward(args, nullptr, {});
    };
    return count(call, 1);
  }

  std::size_t workspace_size(const ForwardArgs& args) {
    return dispatcher_.forward_workspace_size(args);
  }

 private:
  template <class Call>
  HostCalls count(Call call, int steps) {
    call();
    const auto work = [&] {
      for (int i = 0; i < kCalls; ++i) call();
    };
    launches = 0;
    const HostCalls calls = count_host_calls(work);
    CHECK(launches == steps * kCalls);
    CHECK_FALSE(makes_system_calls(work));
    return calls;
  }

  static std::shared_ptr<const cuda::Driver> driver(Launch launch, cuda::DriverApi api) {
    api.launch_kernel_ex = launch;
    return std::make_shared<const cuda::Driver>(api);
  }

  Dispatcher dispatcher_;
};

ForwardArgs plain_args() { return test::forward_args({.head_dim = 16, .head_dim_v = 16}); }

}  // namespace

TEST_CASE("a warm call takes no lock, memory, variable or system call") {
  CHECK(WarmDispatcher().count(plain_args()) == HostCalls{});
}

TEST_CASE("nor does one with every feature and two kernels, whoever gives the workspace") {
  ForwardArgs args = plain_args();
  args.mask = test::mask(args, "b1qk");
  args.bias = test::bias(args, "1hqk");
  args.seqlens_q = test::fake_address<std::int32_t>(6);
  args.lse = test::fake_address<float>(7);
  args.scale = 0.5f;
  args.window = {.left = 100, .right = 3};
  args.diagonal = Diagonal::kBottomRight;
  WarmDispatcher dispatcher;
  CHECK(dispatcher.count(args, {}, 2) == HostCalls{});
  const Workspace workspace{test::fake_address(8), dispatcher.workspace_size(args)};
  CHECK(workspace.bytes > 0);
  CHECK(dispatcher.count(args, workspace, 2) == HostCalls{});
}

TEST_CASE("nor does a backward, whatever it has to do") {
  WarmDispatcher dispatcher;
  CHECK(dispatcher.count(test::backward_args(plain_args()), {}, 3) == HostCalls{});
  BackwardArgs args = test::bias_args("1hqk", plain_args());
  args.forward.mask = test::mask(args.forward, "b1qk");
  args.forward.seqlens_q = test::fake_address<std::int32_t>(6);
  args.forward.causal = true;
  args.forward.diagonal = Diagonal::kBottomRight;
  args.dlse = test::fake_address<float>(7);
  // Mask classes, preprocess, dk and dv, dq and dbias rounded; or dq and dbias by their own
  // kernels.
  CHECK(dispatcher.count(args, {}, 5) == HostCalls{});
  args.deterministic = true;
  CHECK(dispatcher.count(args, {}, 5) == HostCalls{});
}

TEST_CASE("nor does one on Hopper, whose tensor maps are made once and get new addresses") {
  static int maps = 0, addresses = 0;
  cuda::DriverApi api = test::silent_hopper_api();
  api.tensor_map_encode_tiled = [](CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*,
                                   const cuuint64_t*, const cuuint64_t*, const cuuint32_t*,
                                   const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
                                   CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
    ++maps;
    return CUDA_SUCCESS;
  };
  api.tensor_map_replace_address = [](CUtensorMap*, void*) {
    ++addresses;
    return CUDA_SUCCESS;
  };
  WarmDispatcher dispatcher(count_launch, api);
  ForwardArgs args = test::forward_args();
  CHECK(dispatcher.count(args) == HostCalls{});
  CHECK(maps == 4);  // of q, k, v and out
  // A call elsewhere moves the maps, and one that is not, none.
  const int before = addresses;
  CHECK(dispatcher.count(args) == HostCalls{});
  CHECK(addresses == before);
  args.q.data = test::fake_address(40);
  args.out.data = test::fake_address(41);
  CHECK(dispatcher.count(args) == HostCalls{});
  CHECK(addresses == before + 2 * (kCalls + 1));
  CHECK(maps == 4);
}

TEST_CASE("nor do calls that are each of another shape, more than are remembered") {
  CHECK(WarmDispatcher().count_shapes(plain_args()) == HostCalls{});
}

// The test of the test: each of these in the middle of a call must show.
TEST_CASE("the counters see what a call does") {
  const auto allocate = [](const CUlaunchConfig*, CUfunction, void**, void**) {
    ++launches;
    const std::string text(100, 'x');
    return text.find('y') == text.npos ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
  };
  CHECK(WarmDispatcher(allocate).count(plain_args()) == HostCalls{.allocations = kCalls});
  const auto lock = [](const CUlaunchConfig*, CUfunction, void**, void**) {
    ++launches;
    static std::mutex mutex;
    const std::lock_guard guard(mutex);
    return CUDA_SUCCESS;
  };
  CHECK(WarmDispatcher(lock).count(plain_args()) == HostCalls{.locks = kCalls});
  const auto share = [](const CUlaunchConfig*, CUfunction, void**, void**) {
    ++launches;
    static std::shared_mutex mutex;
    const std::shared_lock guard(mutex);
    return CUDA_SUCCESS;
  };
  CHECK(WarmDispatcher(share).count(plain_args()) == HostCalls{.locks = kCalls});
  const auto environment = [](const CUlaunchConfig*, CUfunction, void**, void**) {
    ++launches;
    return std::getenv("ATTNJIT_UNSET") == nullptr ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
  };
  CHECK(WarmDispatcher(environment).count(plain_args()) == HostCalls{.environments = kCalls});
}

TEST_CASE("the filter sees a system call, and lets arithmetic pass") {
  CHECK(makes_system_calls([] { getppid(); }));
  CHECK_FALSE(makes_system_calls([] {}));
}
