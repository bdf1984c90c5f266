#include <doctest/doctest.h>

#include "attnjit/error.hpp"
#include "cuda/device.hpp"
#include "unit/cuda_stub_driver.hpp"

using attnjit::Error;
using namespace attnjit::cuda;

namespace {

DeviceInfo capability(int major, int minor) {
  DeviceInfo info;
  info.major = major;
  info.minor = minor;
  return info;
}

void describe_hopper(StubDriver& state) {
  state.device_attributes = {
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0},
      {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 132},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 232448},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 233472},
      {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 50 << 20},
      {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1980000},
  };
}

}  // namespace

TEST_CASE("arch() is the name that NVRTC is asked for") {
  CHECK(capability(8, 0).arch() == "sm_80");
  CHECK(capability(8, 6).arch() == "sm_86");
  CHECK(capability(8, 9).arch() == "sm_89");
  CHECK(capability(9, 0).arch() == "sm_90a");
  CHECK(capability(10, 0).arch() == "sm_100");
  CHECK(capability(12, 0).arch() == "sm_120");
}

TEST_CASE("devices() reads every field of every device") {
  StubDriver& state = reset_stub();
  describe_hopper(state);
  state.device_count = 2;
  const auto list = devices(Driver(stub_api()));
  REQUIRE(list.size() == 2);
  CHECK(list[0].ordinal == 0);
  CHECK(list[1].ordinal == 1);
  CHECK(list[1].name == "Stub 9000");
  CHECK(list[1].arch() == "sm_90a");
  CHECK(list[1].sm_count == 132);
  CHECK(list[1].shared_memory_per_block_optin == 232448);
  CHECK(list[1].shared_memory_per_sm == 233472);
  CHECK(list[1].l2_bytes == std::size_t{50} << 20);
  CHECK(list[1].memory_bytes == std::size_t{80} << 30);
  CHECK(list[1].clock_khz == 1980000);
}

TEST_CASE("without a current context there is no current device and no context id") {
  reset_stub();
  const Driver driver(stub_api());
  for (const bool ask_device : {true, false}) {
    try {
      if (ask_device) {
        current_device(driver);
      } else {
        current_context_id(driver);
      }
      FAIL("nothing was thrown");
    } catch (const Error& error) {
      CHECK(error.kind() == attnjit::ErrorKind::kNoDevice);
      CHECK(std::string(error.what()).find("cudaSetDevice") != std::string::npos);
    }
  }
}

TEST_CASE("a primary context is current for as long as it lives, and then released") {
  StubDriver& state = reset_stub();
  describe_hopper(state);
  const Driver driver(stub_api());
  {
    const PrimaryContext context(driver);
    REQUIRE(state.contexts.size() == 1);
    CHECK(current_device(driver).sm_count == 132);
    CHECK(current_context_id(driver) ==
          reinterpret_cast<std::uintptr_t>(state.contexts.back()) + 7);
  }
  CHECK(state.contexts.empty());
  CHECK(state.count("retain") == 1);
  CHECK(state.count("release") == 1);
  CHECK(state.live.empty());
}

TEST_CASE("a primary context that cannot become current is released") {
  StubDriver& state = reset_stub();
  state.results["push"] = CUDA_ERROR_OUT_OF_MEMORY;
  const Driver driver(stub_api());
  CHECK_THROWS_AS(PrimaryContext(driver, 0), Error);
  CHECK(state.count("release") == 1);
  CHECK(state.count("pop") == 0);
}

TEST_CASE("a primary context that was never retained is not released") {
  StubDriver& state = reset_stub();
  state.results["retain"] = CUDA_ERROR_OUT_OF_MEMORY;
  const Driver driver(stub_api());
  CHECK_THROWS_AS(PrimaryContext(driver, 0), Error);
  CHECK(state.count("release") == 0);
}
