#include "runtime/call/call_table.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <memory>

#include "base/parallel.hpp"
#include "runtime/call/dispatcher.hpp"
#include "unit/forward_fixtures.hpp"
#include "unit/forward_outcome.hpp"
#include "unit/runtime_fixtures.hpp"
#include "unit/silent_driver.hpp"
#include "unit/temp_directory.hpp"

using namespace attnjit;

namespace runtime_call_table_test {
using Table = runtime::CallTable<launch::ForwardPass>;

namespace {

ForwardArgs args_of_length(std::int64_t length) {
  return test::forward_args({.seqlen_q = length, .seqlen_kv = length});
}

Table::Call call_of_length(std::int64_t length, unsigned long long context_id = 1) {
  const ForwardArgs args = args_of_length(length);
  return {context_id, args, problem::make_problem(args), nullptr, {}, {}};
}

std::vector<test::Members> launched;  // what the kernels of Hopper's forward were given

std::shared_ptr<const cuda::Driver> recording_driver() {
  cuda::DriverApi api = test::silent_hopper_api();
  api.tensor_map_encode_tiled = [](CUtensorMap* map, CUtensorMapDataType, cuuint32_t, void* address,
                                   const cuuint64_t* extents, const cuuint64_t* strides,
                                   const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave,
                                   CUtensorMapSwizzle, CUtensorMapL2promotion,
                                   CUtensorMapFloatOOBfill) {
    *map = {};
    map->opaque[0] = reinterpret_cast<std::uintptr_t>(address);
    map->opaque[1] = extents[1];
    map->opaque[2] = strides[1];
    return CUDA_SUCCESS;
  };
  api.tensor_map_replace_address = [](CUtensorMap* map, void* address) {
    map->opaque[0] = reinterpret_cast<std::uintptr_t>(address);
    return CUDA_SUCCESS;
  };
  api.launch_kernel_ex = [](const CUlaunchConfig* config, CUfunction, void** params, void**) {
    test::Members& members = launched.emplace_back();
    test::put(members, *static_cast<const kernel::ForwardWgmmaParams*>(params[0]));
    test::put(members, *static_cast<const kernel::SeqlensParams*>(params[1]));
    members["grid"] = fmt::format("{}", config->gridDimX);
    return CUDA_SUCCESS;
  };
  return std::make_shared<const cuda::Driver>(api);
}

// A call whose tensors lie at `place` and behind it.
ForwardArgs args_at(std::uintptr_t place, std::int64_t seqlen_kv) {
  ForwardArgs args = test::forward_args({.seqlen_kv = seqlen_kv, .head_dim_v = 64});
  args.seqlens_kv = test::fake_address<std::int32_t>(place);
  args.lse = test::fake_address<float>(place + 1);
  for (Tensor* const tensor : {&args.q, &args.k, &args.v, &args.out}) {
    tensor->data = test::fake_address(++place + 1);
  }
  return args;
}

}  // namespace

TEST_CASE("a call of a shape that was seen before is launched like the first of its shape") {
  const test::TempDirectory temp;
  base::Environment environment =
      test::environment({{"ATTNJIT_CACHE_DIR", "0"}, {"DISABLE_AUTOTUNE", "1"}});
  environment.cache_directory = temp / "cache";
  environment.lock_directory = temp / "locks";
  const auto dispatcher = [&] {
    return std::make_unique<runtime::Dispatcher>(environment, base::Log::Sink{}, recording_driver(),
                                                 runtime::Engine::Spaces{}, codegen::Path::kWgmma);
  };
  launched.clear();
  const auto warm = dispatcher();
  for (int turn = 0; turn < 3; ++turn) {
    for (const std::uintptr_t place : {10, 20, 30}) {
      for (const std::int64_t seqlen_kv : {192, 203}) {
        warm->forward(args_at(place, seqlen_kv), nullptr, {});
      }
    }
  }
  const std::vector<test::Members> of_one = std::exchange(launched, {});
  REQUIRE(of_one.size() == 18);
  for (int turn = 0; turn < 3; ++turn) {
    for (const std::uintptr_t place : {10, 20, 30}) {
      for (const std::int64_t seqlen_kv : {192, 203}) {
        dispatcher()->forward(args_at(place, seqlen_kv), nullptr, {});
      }
    }
  }
  CHECK(of_one == launched);
}

TEST_CASE("a call is found by its shape and context, wherever its tensors lie") {
  Table table;
  ForwardArgs args = args_of_length(100);
  CHECK(table.find(1, args) == nullptr);
  table.keep(call_of_length(100));
  const Table::Call* const found = table.find(1, args);
  REQUIRE(found != nullptr);
  CHECK(found->problem == problem::make_problem(args));
  args.q.data = test::fake_address(40);
  CHECK(table.find(1, args) == found);
  CHECK(table.find(2, args) == nullptr);
  CHECK(table.find(1, args_of_length(101)) == nullptr);
  // Calls that have one hash.
  args.softcap = 30.0f;
  CHECK(table.find(1, args) == nullptr);
  table.keep({1, args, problem::make_problem(args), nullptr, {}, {}});
  REQUIRE(table.find(1, args) != nullptr);
  CHECK(table.find(1, args)->problem.softcap == 30.0f);
  CHECK(table.find(1, args_of_length(100)) == found);
}

TEST_CASE(
    "a call is kept once, and what is kept stays when there are more than there is room for") {
  Table table;
  int kept = 0;
  for (std::int64_t length = 1; length <= 4 * std::int64_t{Table::kPlaces}; ++length) {
    const bool has_place = table.has_place(1, args_of_length(length));
    table.keep(call_of_length(length));
    const Table::Call* const found = table.find(1, args_of_length(length));
    CHECK((found != nullptr) == has_place);
    if (found == nullptr) continue;
    ++kept;
    table.keep(call_of_length(length));
    CHECK(table.find(1, args_of_length(length)) == found);
  }
  CHECK(kept == Table::kPlaces);
  for (std::int64_t length = 1; length <= 16; ++length) {
    const Table::Call* const found = table.find(1, args_of_length(length));
    REQUIRE(found != nullptr);
    CHECK(found->problem.seqlen_q == length);
  }
}

TEST_CASE("threads keep and find calls at once") {
  Table table;
  base::parallel_for(2000, 4, [&](std::size_t i) {
    const auto length = static_cast<std::int64_t>(i % 50 + 1);
    const ForwardArgs args = args_of_length(length);
    const Table::Call* const found = table.find(1, args);
    if (found == nullptr) {
      table.keep(call_of_length(length));
    } else {
      CHECK(found->problem.seqlen_q == length);
    }
  });
  for (std::int64_t length = 1; length <= 50; ++length) {
    CHECK(table.find(1, args_of_length(length)) != nullptr);
  }
}

}  // namespace runtime_call_table_test
