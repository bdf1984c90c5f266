#include "runtime/call/dispatcher.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "attnjit/error.hpp"
#include "unit/child_process.hpp"
#include "unit/fake_device.hpp"
#include "unit/forward_fixtures.hpp"
#include "unit/runtime_fixtures.hpp"
#include "unit/silent_driver.hpp"
#include "unit/temp_directory.hpp"

using namespace attnjit;
using runtime::Dispatcher;

namespace {

base::Environment memory_only() {
  return test::environment({{"ATTNJIT_CACHE_DIR", "0"}, {"DISABLE_AUTOTUNE", "1"}});
}

// Kinds of problem whose kernels compile in half a second each.
std::vector<ForwardArgs> kinds() {
  std::vector<ForwardArgs> list;
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    ForwardArgs args = test::forward_args({.head_dim = 16, .head_dim_v = 16, .dtype = dtype});
    list.push_back(args);
    args.seqlens_kv = test::fake_address<std::int32_t>(6);
    list.push_back(args);
    args.causal = true;
    args.diagonal = Diagonal::kTopLeft;
    list.push_back(args);
  }
  return list;
}

}  // namespace

TEST_CASE("threads with different kinds of problem at once make one plan of each") {
  static std::atomic<int> launches;
  launches = 0;
  const test::TempDirectory temp;
  base::Environment environment = memory_only();
  environment.cache_directory = temp / "cache";
  environment.lock_directory = temp / "locks";
  const std::vector<ForwardArgs> list = kinds();
  // Compiled one by one: inside NVRTC, a thread sanitizer sees accesses and not what orders them.
  Dispatcher first(environment, {}, test::silent_driver());
  for (const ForwardArgs& args : list) first.prepare_forward(args);

  cuda::DriverApi api = test::silent_api();
  api.launch_kernel_ex = [](const CUlaunchConfig*, CUfunction, void**, void**) {
    launches.fetch_add(1, std::memory_order_relaxed);
    return CUDA_SUCCESS;
  };
  Dispatcher dispatcher(environment, {}, std::make_shared<const cuda::Driver>(api));
  constexpr int kThreads = 8, kCalls = 300;
  std::vector<std::jthread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kCalls; ++i) dispatcher.forward(list[(t + i) % list.size()], nullptr, {});
    });
  }
  threads.clear();  // joins
  CHECK(launches == kThreads * kCalls);
  CHECK(dispatcher.counters().plans == list.size());
  CHECK(dispatcher.counters().disk_hits == list.size() + 2);  // a combine step for each dtype
}

TEST_CASE("a log's sink may make the call whose lines it gets") {
  base::Environment environment = memory_only();
  environment.jit = base::JitPolicy::kWarn;
  const ForwardArgs args = kinds()[0];
  std::mutex mutex;  // a compile that takes long is told of by another thread
  std::vector<std::string> seen;
  Dispatcher* self = nullptr;
  const auto sink = [&](base::LogLevel, std::string_view text) {
    {
      const std::scoped_lock lock(mutex);
      seen.emplace_back(text);
    }
    self->forward(args, nullptr, {});
  };
  Dispatcher dispatcher(environment, sink, test::silent_driver());
  self = &dispatcher;
  dispatcher.defer_log();
  dispatcher.forward(args, nullptr, {});
  const std::scoped_lock lock(mutex);
  REQUIRE(!seen.empty());
  CHECK(seen[0].starts_with("compiling kernel"));
  CHECK(dispatcher.counters().plans == 1);
}

TEST_CASE("addresses are looked at when a plan is made and when a call is prepared") {
  static std::atomic<int> queries;
  static std::atomic<bool> known;
  queries = 0;
  known = false;
  cuda::DriverApi api = test::silent_api();
  api.pointer_get_attribute = [](void* out, CUpointer_attribute, CUdeviceptr pointer) {
    ++queries;
    if (!known) return CUDA_ERROR_INVALID_VALUE;
    std::memcpy(out, &pointer, sizeof pointer);
    return CUDA_SUCCESS;
  };
  Dispatcher dispatcher(memory_only(), {}, std::make_shared<const cuda::Driver>(api));
  const ForwardArgs args = kinds()[0];
  CHECK_THROWS_WITH_AS(dispatcher.forward(args, nullptr, {}), doctest::Contains("q: address"),
                       Error);
  CHECK(dispatcher.counters().plans == 0);

  known = true;
  queries = 0;
  dispatcher.forward(args, nullptr, {});
  CHECK(queries == 4);  // q, k, v, out
  dispatcher.forward(args, nullptr, {});
  CHECK(queries == 4);

  known = false;
  CHECK_THROWS_AS(dispatcher.prepare_forward(args), Error);
  CHECK_NOTHROW(dispatcher.forward(args, nullptr, {}));
}

TEST_CASE("a kernel that may not be compiled fails every call") {
  base::Environment environment = memory_only();
  environment.jit = base::JitPolicy::kForbid;
  Dispatcher dispatcher(environment, {}, test::silent_driver());
  for (int i = 0; i < 2; ++i) {
    CHECK_THROWS_WITH_AS(dispatcher.forward(kinds()[0], nullptr, {}),
                         doctest::Contains("ATTNJIT_JIT=forbid"), Error);
  }
  CHECK(dispatcher.counters().plans == 0);
  CHECK(dispatcher.counters().compiles == 0);
}

TEST_CASE("a child of a process that used CUDA gets an error that names fork and the way out") {
  static bool forked;
  forked = false;
  cuda::DriverApi api = test::silent_api();
  api.ctx_get_current = [](CUcontext* out) {  // as the real driver answers
    *out = reinterpret_cast<CUcontext>(0x10);
    return forked ? CUDA_ERROR_NOT_INITIALIZED : CUDA_SUCCESS;
  };
  api.ctx_get_id = [](CUcontext, unsigned long long* out) {
    *out = 7;
    return forked ? CUDA_ERROR_NOT_INITIALIZED : CUDA_SUCCESS;
  };
  Dispatcher dispatcher(memory_only(), {}, std::make_shared<const cuda::Driver>(api));
  const std::vector<ForwardArgs> list = kinds();
  dispatcher.forward(list[0], nullptr, {});
  const auto refused = [](const auto& call) {
    try {
      call();
    } catch (const Error& error) {
      const std::string_view message = error.what();
      return error.kind() == ErrorKind::kUnsupported && message.find("fork()") != message.npos &&
             message.find("spawn") != message.npos;
    }
    return false;
  };
  CHECK(test::true_in_child([&] {
    const bool cold = refused([&] { dispatcher.prepare_forward(list[1]); }) &&
                      refused([&] { dispatcher.forward(list[1], nullptr, {}); });
    forked = true;
    return cold && refused([&] { dispatcher.forward(list[0], nullptr, {}); });
  }));
  CHECK_NOTHROW(dispatcher.forward(list[1], nullptr, {}));
}

TEST_CASE("a problem without rows needs neither a driver nor a plan") {
  ForwardArgs args = kinds()[0];
  args.q.shape[2] = args.out.shape[2] = 0;
  Dispatcher dispatcher(memory_only());
  CHECK_NOTHROW(dispatcher.forward(args, nullptr, {}));
  CHECK_NOTHROW(dispatcher.prepare_forward(args));
  CHECK(dispatcher.forward_workspace_size(args) == 0);
}

TEST_CASE("largest scores of heads are written without rows too, and nothing is tuned for them") {
  ForwardArgs args = kinds()[0];
  args.q.shape[2] = args.out.shape[2] = 0;
  args.max_logits = test::fake_address<float>(7);
  for (const char* const disable : {"1", "0"}) {
    CAPTURE(disable);
    test::FakeDevice device;
    Dispatcher dispatcher(
        test::environment({{"ATTNJIT_CACHE_DIR", "0"}, {"DISABLE_AUTOTUNE", disable}}), {},
        device.driver());
    CHECK_NOTHROW(dispatcher.forward(args, nullptr, {}));
    CHECK(dispatcher.counters().plans == 1);
    CHECK(dispatcher.counters().tunes == 0);
  }
}
