// The backward through the dispatcher, on drivers without a device.
#include <doctest/doctest.h>

#include <fstream>
#include <iterator>

#include "attnjit/error.hpp"
#include "runtime/call/dispatcher.hpp"
#include "unit/backward_fixtures.hpp"
#include "unit/runtime_fixtures.hpp"
#include "unit/silent_driver.hpp"
#include "unit/temp_directory.hpp"

using namespace attnjit;

namespace runtime_backward_test {
using runtime::Dispatcher;

namespace {

base::Environment memory_only() {
  return test::environment({{"ATTNJIT_CACHE_DIR", "0"}, {"DISABLE_AUTOTUNE", "1"}});
}

// Kernels that compile fast.
BackwardArgs small_args() {
  return test::backward_args(test::forward_args({.head_dim = 16, .head_dim_v = 16}));
}

int launches = 0;
unsigned blocks = 0;  // of the last launch

std::shared_ptr<const cuda::Driver> counting_driver() {
  launches = 0;
  cuda::DriverApi api = test::silent_api();
  api.launch_kernel_ex = [](const CUlaunchConfig* config, CUfunction, void**, void**) {
    ++launches;
    blocks = config->gridDimX;
    return CUDA_SUCCESS;
  };
  return std::make_shared<const cuda::Driver>(api);
}

}  // namespace

TEST_CASE("a backward launches its steps, and a plan is made once") {
  Dispatcher dispatcher(memory_only(), {}, counting_driver());
  const BackwardArgs args = small_args();
  dispatcher.prepare_backward(args);
  CHECK(launches == 0);
  CHECK(dispatcher.counters().plans == 1);
  dispatcher.backward(args, nullptr, {});
  CHECK(launches == 3);  // preprocess, dk and dv, and dq rounded
  const auto rows = static_cast<unsigned>(args.dq.shape[2]);
  CHECK(blocks == args.dq.shape[0] * args.dq.shape[1] * ((rows + 63) / 64));

  BackwardArgs longer = args;
  longer.forward.k.shape[2] = longer.forward.v.shape[2] = 190;  // the same buckets
  longer.dk.shape[2] = longer.dv.shape[2] = 190;
  dispatcher.backward(longer, nullptr, {});
  CHECK(dispatcher.counters().plans == 1);

  BackwardArgs deterministic = args;
  deterministic.deterministic = true;
  dispatcher.backward(deterministic, nullptr, {});
  CHECK(dispatcher.counters().plans == 2);
  CHECK(dispatcher.counters().tunes == 0);
}

TEST_CASE("a forward and its backward have plans of their own") {
  Dispatcher dispatcher(memory_only(), {}, counting_driver());
  const BackwardArgs args = small_args();
  dispatcher.forward(args.forward, nullptr, {});
  dispatcher.backward(args, nullptr, {});
  dispatcher.forward(args.forward, nullptr, {});
  dispatcher.backward(args, nullptr, {});
  CHECK(dispatcher.counters().plans == 2);
}

TEST_CASE("addresses of a backward are looked at when a plan is made and when it is prepared") {
  static std::uintptr_t on_host;
  static int queries;
  on_host = queries = 0;
  cuda::DriverApi api = test::silent_api();
  api.pointer_get_attribute = [](void* out, CUpointer_attribute, CUdeviceptr pointer) {
    ++queries;
    if (pointer == on_host) return CUDA_ERROR_INVALID_VALUE;
    std::memcpy(out, &pointer, sizeof pointer);
    return CUDA_SUCCESS;
  };
  Dispatcher dispatcher(memory_only(), {}, std::make_shared<const cuda::Driver>(api));
  BackwardArgs args = test::bias_args("1hqk", small_args().forward);
  args.dlse = test::fake_address<float>(20);
  args.forward.mask = test::mask(args.forward, "b11k");
  args.forward.seqlens_kv = test::fake_address<std::int32_t>(21);
  const std::pair<const char*, const void*> tensors[] = {{"q", args.forward.q.data},
                                                         {"k", args.forward.k.data},
                                                         {"v", args.forward.v.data},
                                                         {"out", args.forward.out.data},
                                                         {"lse", args.forward.lse},
                                                         {"seqlens_kv", args.forward.seqlens_kv},
                                                         {"mask", args.forward.mask->data},
                                                         {"bias", args.forward.bias->data},
                                                         {"dout", args.dout.data},
                                                         {"dlse", args.dlse},
                                                         {"dq", args.dq.data},
                                                         {"dk", args.dk.data},
                                                         {"dv", args.dv.data},
                                                         {"dbias", args.dbias->data}};
  for (const auto& [name, address] : tensors) {
    on_host = reinterpret_cast<std::uintptr_t>(address);
    const std::string message = fmt::format("{}: address {} is not device memory", name, address);
    CHECK_THROWS_WITH_AS(dispatcher.backward(args, nullptr, {}), doctest::Contains(message.c_str()),
                         Error);
    CHECK_THROWS_WITH_AS(dispatcher.prepare_backward(args), doctest::Contains(message.c_str()),
                         Error);
  }
  CHECK(dispatcher.counters().plans == 0);
  on_host = 0;
  queries = 0;
  dispatcher.backward(args, nullptr, {});
  CHECK(queries == std::size(tensors));
  dispatcher.backward(args, nullptr, {});
  CHECK(queries == std::size(tensors));
}

TEST_CASE("a backward takes the caller's workspace, or one in the order of its stream") {
  static std::size_t allocated;
  allocated = 0;
  cuda::DriverApi api = test::silent_api();
  api.mem_alloc_async = [](CUdeviceptr* out, std::size_t bytes, CUstream) {
    allocated += bytes;
    return *out = 0x1000, CUDA_SUCCESS;
  };
  Dispatcher dispatcher(memory_only(), {}, std::make_shared<const cuda::Driver>(api));
  const BackwardArgs args = small_args();
  const std::size_t bytes = dispatcher.backward_workspace_size(args);
  CHECK(bytes > 0);
  dispatcher.backward(args, nullptr, {});
  CHECK(allocated == bytes);
  dispatcher.backward(args, nullptr, {test::fake_address(30), bytes});
  CHECK(allocated == bytes);
  CHECK_THROWS_WITH_AS(dispatcher.backward(args, nullptr, {test::fake_address(30), bytes - 1}),
                       doctest::Contains("(backward_workspace_size)"), Error);
  void* const odd = test::fake_address<char>(30) + 128;
  CHECK_THROWS_WITH_AS(dispatcher.backward(args, nullptr, {odd, bytes}),
                       doctest::Contains("is not aligned to 256 bytes"), Error);
}

TEST_CASE("a backward without elements needs neither a driver nor a plan") {
  BackwardArgs args = small_args();
  args.forward.q.shape[2] = args.forward.out.shape[2] = args.dout.shape[2] = args.dq.shape[2] = 0;
  args.forward.k.shape[2] = args.forward.v.shape[2] = args.dk.shape[2] = args.dv.shape[2] = 0;
  Dispatcher dispatcher(memory_only());
  CHECK_NOTHROW(dispatcher.backward(args, nullptr, {}));
  CHECK_NOTHROW(dispatcher.prepare_backward(args));
  CHECK(dispatcher.backward_workspace_size(args) == 0);
}

TEST_CASE("a backward without rows writes dk and dv, and one without keys dq") {
  BackwardArgs rows = small_args();
  rows.forward.k.shape[2] = rows.forward.v.shape[2] = rows.dk.shape[2] = rows.dv.shape[2] = 0;
  BackwardArgs keys = small_args();
  keys.forward.q.shape[2] = keys.forward.out.shape[2] = keys.dout.shape[2] = keys.dq.shape[2] = 0;
  Dispatcher dispatcher(memory_only(), {}, counting_driver());
  dispatcher.backward(rows, nullptr, {});
  CHECK(launches == 2);  // preprocess, and dq rounded
  launches = 0;
  dispatcher.backward(keys, nullptr, {});
  CHECK(launches == 1);  // dk and dv
}

TEST_CASE("the problems of a backward are recorded as lines of a manifest") {
  const test::TempDirectory temp;
  base::Environment environment = memory_only();
  environment.record_file = temp / "problems.jsonl";
  Dispatcher dispatcher(environment, {}, test::silent_driver());
  BackwardArgs args = test::bias_args("1hqk", small_args().forward);
  args.deterministic = true;
  dispatcher.prepare_backward(args);
  std::ifstream file(*environment.record_file);
  const std::string line(std::istreambuf_iterator<char>(file), {});
  CHECK(line.find(R"("pass":"backward")") != std::string::npos);
  CHECK(line.find(R"("dbias":true,"dbias_dtype":"bf16","deterministic":true)") !=
        std::string::npos);
}

}  // namespace runtime_backward_test
