// Prepared masks through the dispatcher, on a driver that launches nothing.
#include <doctest/doctest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "attnjit/prepass/mask_to_bits_config.h"
#include "runtime/call/dispatcher.hpp"
#include "unit/forward_fixtures.hpp"
#include "unit/runtime_fixtures.hpp"
#include "unit/silent_driver.hpp"

using namespace attnjit;

namespace runtime_prepared_mask_test {
using runtime::Dispatcher;
using test::fake_address;

namespace {

std::vector<unsigned> grids;           // of the launches so far
kernel::MaskToBitsParams last_params;  // of the first parameter of the last launch

std::shared_ptr<const cuda::Driver> recording_driver() {
  grids.clear();
  cuda::DriverApi api = test::silent_api();
  api.launch_kernel_ex = [](const CUlaunchConfig* config, CUfunction, void** parameters, void**) {
    grids.push_back(config->gridDimX);
    std::memcpy(&last_params, parameters[0], sizeof last_params);
    return CUDA_SUCCESS;
  };
  return std::make_shared<const cuda::Driver>(api);
}

base::Environment environment() {
  return test::environment({{"ATTNJIT_CACHE_DIR", "0"}, {"DISABLE_AUTOTUNE", "1"}});
}

PrepareMaskArgs mask_args(const ForwardArgs& call, const char* pattern, bool for_backward) {
  return {
      .mask = test::mask(call, pattern), .for_backward = for_backward, .memory = fake_address(9)};
}

}  // namespace

TEST_CASE("the size of a prepared mask is linear in the mask's") {
  const Dispatcher dispatcher(environment(), {}, recording_driver());
  const ForwardArgs call = test::forward_args({.seqlen_q = 130, .seqlen_kv = 300});
  // Rows have 12 words of 32 keys, each of these keys one of 64 queries in each of 3 tiles, and 3
  // by 6 tiles a class each.
  const std::size_t rows = 130 * 12 * 4, keys = 3 * 12 * 32 * 8, classes = 3 * 6;
  CHECK(dispatcher.prepared_mask_size(mask_args(call, "11qk", false)) == rows + classes);
  CHECK(dispatcher.prepared_mask_size(mask_args(call, "11qk", true)) == rows + keys + classes);
  CHECK(dispatcher.prepared_mask_size(mask_args(call, "bgqk", true)) ==
        4 * 8 * (rows + keys + classes));
  CHECK(dispatcher.prepared_mask_size(mask_args(call, "b11k", true)) == 4 * (12 * 4 + 6));
  PrepareMaskArgs empty = mask_args(call, "b11k", true);
  empty.mask.shape[0] = 0;
  CHECK(dispatcher.prepared_mask_size(empty) == 0);
}

TEST_CASE("a mask is prepared by one launch, and calls with it have no prepass") {
  Dispatcher dispatcher(environment(), {}, recording_driver());
  ForwardArgs call = test::forward_args();
  PrepareMaskArgs args = mask_args(call, "1gqk", true);
  call.prepared_mask = dispatcher.prepare_mask(args, nullptr);
  REQUIRE(grids.size() == 1);
  CHECK(grids[0] == 8u * (128 / 64));  // 512 keys each
  CHECK(last_params.mask == args.mask.data);
  CHECK(last_params.words == args.memory);
  const auto offset = [&](const void* part) {
    return static_cast<const char*>(part) - static_cast<const char*>(args.memory);
  };
  const std::int64_t bits = 8 * 128 * 8 * 4;
  CHECK(offset(last_params.columns) == bits);
  CHECK(offset(last_params.classes) == bits + 8 * 2 * 256 * 8);
  CHECK(dispatcher.counters().compiles == 1);
  CHECK(dispatcher.forward_workspace_size(call) == 0);
  dispatcher.forward(call, nullptr);
  CHECK(grids.size() == 2);
  // A mask of another size of the same kind needs no other kernel.
  dispatcher.prepare_mask(mask_args(test::forward_args({.seqlen_q = 1000}), "b1qk", true), nullptr);
  CHECK(grids.size() == 3);
  constexpr std::uintptr_t kLast = std::uintptr_t{0} - 16;  // any address of the device will do
  args.memory = reinterpret_cast<void*>(kLast);
  dispatcher.prepare_mask(args, nullptr);
  CHECK(reinterpret_cast<std::uintptr_t>(last_params.classes) == kLast + bits + 8 * 2 * 256 * 8);
  grids.pop_back();
  args.mask.shape[3] = 0;
  dispatcher.prepare_mask(args, nullptr);
  CHECK(grids.size() == 3);
}

}  // namespace runtime_prepared_mask_test
