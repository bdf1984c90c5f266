// Merges of partial results through the dispatcher, on a driver that launches nothing.
#include <doctest/doctest.h>

#include <cstring>
#include <memory>
#include <string>

#include "attnjit/error.hpp"
#include "attnjit/forward/merge_lse_config.h"
#include "runtime/call/dispatcher.hpp"
#include "unit/forward_fixtures.hpp"
#include "unit/runtime_fixtures.hpp"
#include "unit/silent_driver.hpp"

using namespace attnjit;

namespace runtime_merge_test {
using runtime::Dispatcher;

namespace {

// The launches so far, and the last one.
int launches;
unsigned blocks;
kernel::MergeLseParams params;

MergeLseArgs merge_args(std::int64_t rows) {
  using test::fake_address;
  MergeLseArgs args;
  args.parts = Tensor::contiguous(fake_address<void>(1), DType::kBFloat16, {2, 4, rows, 64});
  args.part_stride = 2 * 4 * rows * 64;
  args.num_parts = 3;
  args.part_lses = fake_address<float>(2);
  args.out = Tensor::contiguous(fake_address<void>(3), DType::kBFloat16, {2, 4, rows, 64});
  args.lse = fake_address<float>(4);
  return args;
}

std::shared_ptr<const cuda::Driver> recording_driver() {
  cuda::DriverApi api = test::silent_api();
  api.launch_kernel_ex = [](const CUlaunchConfig* config, CUfunction, void** parameters, void**) {
    ++launches;
    blocks = config->gridDimX;
    std::memcpy(&params, parameters[0], sizeof params);
    return CUDA_SUCCESS;
  };
  return std::make_shared<const cuda::Driver>(api);
}

base::Environment environment(const char* jit) {
  return test::environment(
      {{"ATTNJIT_CACHE_DIR", "0"}, {"DISABLE_AUTOTUNE", "1"}, {"ATTNJIT_JIT", jit}});
}

}  // namespace

TEST_CASE("merges of a kind share a kernel, and one without rows launches nothing") {
  launches = 0;
  Dispatcher dispatcher(environment("allow"), {}, recording_driver());
  for (const std::int64_t rows : {100, 0, 33}) dispatcher.merge_lse(merge_args(rows), nullptr);
  CHECK(launches == 2);
  CHECK(blocks == 9);  // of 32 rows, eight threads each
  CHECK(params.num_rows == 2 * 4 * 33);
  CHECK(params.part_strides.batch == 4 * 33 * 64);
  CHECK(params.carry == nullptr);
  CHECK(dispatcher.counters().compiles == 1);
  MergeLseArgs wide = merge_args(100);
  wide.out.dtype = DType::kFloat32;
  dispatcher.merge_lse(wide, nullptr);
  CHECK(dispatcher.counters().compiles == 2);
}

TEST_CASE("a merge whose kernel may not be compiled says how to get it") {
  Dispatcher dispatcher(environment("forbid"), {}, recording_driver());
  try {
    dispatcher.merge_lse(merge_args(100), nullptr);
    FAIL("it was compiled");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kCache);
    const std::string what = error.what();
    CHECK(what.find("merge of 3 parts, bf16 to bf16, b2 h4 l100 dv64") != std::string::npos);
    CHECK(what.find("add \"merges\": true to an entry of a manifest") != std::string::npos);
    CHECK(what.ends_with("make the call once where compiling is allowed, with this cache"));
  }
}

}  // namespace runtime_merge_test
