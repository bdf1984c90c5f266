#include <doctest/doctest.h>

#include <utility>

#include "attnjit/error.hpp"
#include "cuda/launch.hpp"
#include "cuda/library.hpp"
#include "unit/cuda_stub_driver.hpp"

using attnjit::Error;
using attnjit::ErrorKind;
using namespace attnjit::cuda;

namespace {

Library load(const Driver& driver) {
  return std::move(*load_library(driver, std::vector<std::byte>(64), "entry").library);
}

ErrorKind kind_of_kernel_error(const Library& library) {
  try {
    Kernel(library, "entry", 300000);
  } catch (const Error& error) {
    CHECK(std::string(error.what()).find("'entry'") != std::string::npos);
    return error.kind();
  }
  FAIL("nothing was thrown");
  return {};
}

}  // namespace

TEST_CASE("a library is loaded in relaxed capture mode and unloaded once") {
  StubDriver& state = reset_stub();
  const Driver driver(stub_api());
  {
    Library first = load(driver);
    const Library second(std::move(first));
    CHECK(state.mode_at_load == CU_STREAM_CAPTURE_MODE_RELAXED);
    CHECK(state.capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
    CHECK(state.live.size() == 1);
  }
  CHECK(state.live.empty());
  CHECK(state.count("library_unload") == 1);
}

TEST_CASE("what is wrong with a cubin is a refusal, and leaves nothing loaded") {
  StubDriver& state = reset_stub();
  const Driver driver(stub_api());
  const auto refusal = [&](const char* call, CUresult result) {
    state.results = {{call, result}};
    const LoadResult loaded = load_library(driver, std::vector<std::byte>(64), "entry");
    CHECK(loaded.library == nullptr);
    return loaded.refusal;
  };
  CHECK(refusal("library_load", CUDA_ERROR_NO_BINARY_FOR_GPU) == "CUDA error 209");
  CHECK(refusal("library_load", CUDA_ERROR_INVALID_IMAGE) == "CUDA error 200");
  CHECK(refusal("get_kernel", CUDA_ERROR_NOT_FOUND) == "CUDA error 500");
  CHECK(refusal("get_function", CUDA_ERROR_NO_BINARY_FOR_GPU) == "CUDA error 209");
  CHECK(state.capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
  CHECK(state.live.empty());
}

TEST_CASE("what is wrong with the context or its memory is an error") {
  StubDriver& state = reset_stub();
  const Driver driver(stub_api());
  for (const char* const call : {"library_load", "get_kernel", "get_function"}) {
    CAPTURE(call);
    state.results = {{call, CUDA_ERROR_OUT_OF_MEMORY}};
    CHECK_THROWS_WITH_AS(load(driver), doctest::Contains("CUDA_ERROR_OUT_OF_MEMORY"), Error);
  }
  CHECK(state.live.empty());
}

TEST_CASE("a kernel gets its shared memory and reads its attributes back") {
  StubDriver& state = reset_stub();
  state.function_attributes = {{CU_FUNC_ATTRIBUTE_NUM_REGS, 168},
                               {CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, 16},
                               {CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, 1024},
                               {CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 384}};
  const Driver driver(stub_api());
  const Library library = load(driver);
  const Kernel kernel(library, "entry", 200000);
  CHECK(state.function_attributes[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES] == 200000);
  CHECK(kernel.function() != nullptr);
  CHECK(kernel.attributes().registers == 168);
  CHECK(kernel.attributes().local_bytes == 16);
  CHECK(kernel.attributes().static_shared_bytes == 1024);
  CHECK(kernel.attributes().max_threads_per_block == 384);
}

TEST_CASE("each way in which a kernel cannot be had has its kind of error") {
  StubDriver& state = reset_stub();
  const Driver driver(stub_api());
  const Library library = load(driver);
  state.results = {{"get_kernel", CUDA_ERROR_NOT_FOUND}};
  CHECK(kind_of_kernel_error(library) == ErrorKind::kInternal);
  state.results = {{"get_function", CUDA_ERROR_OUT_OF_MEMORY}};
  CHECK(kind_of_kernel_error(library) == ErrorKind::kCuda);
  state.results = {{"func_set", CUDA_ERROR_INVALID_VALUE}};
  CHECK(kind_of_kernel_error(library) == ErrorKind::kUnsupported);
  state.results = {{"func_set", CUDA_ERROR_ILLEGAL_ADDRESS}};
  CHECK(kind_of_kernel_error(library) == ErrorKind::kCuda);
  CHECK(state.capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
}

TEST_CASE("launch() hands its shape to the driver") {
  StubDriver& state = reset_stub();
  const Driver driver(stub_api());
  const auto stream = reinterpret_cast<CUstream>(0x77);
  launch(driver, nullptr, {.grid = {3, 5, 7}, .block = 384, .shared_bytes = 4096}, stream, nullptr);
  CHECK(state.launch.gridDimX == 3);
  CHECK(state.launch.gridDimY == 5);
  CHECK(state.launch.gridDimZ == 7);
  CHECK(state.launch.blockDimX == 384);
  CHECK(state.launch.blockDimY == 1);
  CHECK(state.launch.blockDimZ == 1);
  CHECK(state.launch.sharedMemBytes == 4096);
  CHECK(state.launch.hStream == stream);
  CHECK(state.launch.numAttrs == 0);
}

TEST_CASE("a launch that fails throws") {
  reset_stub().results["launch"] = CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  const Driver driver(stub_api());
  CHECK_THROWS_AS(launch(driver, nullptr, {}, nullptr, nullptr), Error);
}
