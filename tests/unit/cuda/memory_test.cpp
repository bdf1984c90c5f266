#include <doctest/doctest.h>

#include <array>
#include <string>
#include <utility>

#include "attnjit/error.hpp"
#include "cuda/memory.hpp"
#include "unit/cuda_stub_driver.hpp"

using attnjit::Error;
using namespace attnjit::cuda;

TEST_CASE("a device buffer is freed once, wherever it was moved") {
  StubDriver& state = reset_stub();
  const Driver driver(stub_api());
  {
    DeviceBuffer first(driver, 256);
    CHECK(first.data() != nullptr);
    const DeviceBuffer second(std::move(first));
    CHECK(second.bytes() == 256);
    CHECK(first.data() == nullptr);
  }
  CHECK(state.live.empty());
  CHECK(state.count("free") == 1);
}

TEST_CASE("a stream buffer is freed on its own stream") {
  StubDriver& state = reset_stub();
  const Driver driver(stub_api());
  const auto stream = reinterpret_cast<CUstream>(0x77);
  {
    StubDriver& seen = stub();
    StreamBuffer first(driver, 256, stream);
    CHECK(seen.last_stream == stream);
    seen.last_stream = nullptr;
    const StreamBuffer second(std::move(first));
    CHECK(second.bytes() == 256);
  }
  CHECK(state.last_stream == stream);
  CHECK(state.live.empty());
  CHECK(state.count("free_async") == 1);
}

TEST_CASE("a stream buffer comes and goes in relaxed capture mode") {
  const StubDriver& state = reset_stub();
  const Driver driver(stub_api());
  { const StreamBuffer buffer(driver, 256, nullptr); }
  CHECK(state.modes_of_stream_buffers ==
        std::vector(2, CUstreamCaptureMode{CU_STREAM_CAPTURE_MODE_RELAXED}));
  CHECK(state.capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
}

TEST_CASE("zero bytes allocate nothing and free nothing") {
  StubDriver& state = reset_stub();
  const Driver driver(stub_api());
  {
    const DeviceBuffer plain(driver, 0);
    const StreamBuffer ordered(driver, 0, nullptr);
    CHECK(plain.data() == nullptr);
    CHECK(ordered.data() == nullptr);
  }
  for (const char* name : {"alloc", "free", "alloc_async", "free_async"}) {
    CHECK(state.count(name) == 0);
  }
}

TEST_CASE("a failed allocation says how much was asked for and frees nothing") {
  StubDriver& state = reset_stub();
  state.results = {{"alloc", CUDA_ERROR_OUT_OF_MEMORY}, {"alloc_async", CUDA_ERROR_OUT_OF_MEMORY}};
  const Driver driver(stub_api());
  CHECK_THROWS_WITH_AS(
      DeviceBuffer(driver, 4321),
      "cannot allocate 4321 bytes of device memory: CUDA_ERROR_OUT_OF_MEMORY: out of memory",
      Error);
  CHECK_THROWS_AS(StreamBuffer(driver, 4321, nullptr), Error);
  CHECK(state.count("free") + state.count("free_async") == 0);
}

TEST_CASE("copies and fills move the bytes, and copies wait for their stream") {
  StubDriver& state = reset_stub();
  const Driver driver(stub_api());
  const auto stream = reinterpret_cast<CUstream>(0x77);
  const std::array<char, 4> source = {1, 2, 3, 4};
  std::array<char, 4> device{};
  std::array<char, 4> back{};
  copy_to_device(driver, device.data(), source.data(), source.size(), stream);
  CHECK(state.calls.back() == "synchronize");
  CHECK(state.last_stream == stream);
  copy_to_host(driver, back.data(), device.data(), back.size(), stream);
  CHECK(state.calls.back() == "synchronize");
  CHECK(back == source);
  fill_bytes(driver, device.data(), 9, device.size(), stream);
  CHECK(state.calls.back() == "memset");
  CHECK(device == std::array<char, 4>{9, 9, 9, 9});
}

TEST_CASE("is_device_pointer() holds where the driver confirms the very address") {
  StubDriver& state = reset_stub();
  const Driver driver(stub_api());
  const auto* pointer = reinterpret_cast<const void*>(std::uintptr_t{0x5000});
  state.device_pointer = 0x5000;
  CHECK(is_device_pointer(driver, pointer));
  state.device_pointer = 0x6000;  // registered host memory that the device sees elsewhere
  CHECK_FALSE(is_device_pointer(driver, pointer));
  state.results["pointer"] = CUDA_ERROR_INVALID_VALUE;  // ordinary host memory
  state.device_pointer = 0x5000;
  CHECK_FALSE(is_device_pointer(driver, pointer));
}

TEST_CASE("a null pointer is no device pointer, whatever the driver says") {
  reset_stub().device_pointer = 0;
  CHECK_FALSE(is_device_pointer(Driver(stub_api()), nullptr));
}

TEST_CASE("repeat_on_device() fills with repetitions of what is there") {
  StubDriver& state = reset_stub();
  const Driver driver(stub_api());
  std::string memory = "abc.........";
  repeat_on_device(driver, memory.data(), 3, 11);
  CHECK(memory == "abcabcabcab.");
  CHECK(state.count("dtod") == 2);
  repeat_on_device(driver, memory.data(), 3, 2);
  CHECK(state.count("dtod") == 2);
}
