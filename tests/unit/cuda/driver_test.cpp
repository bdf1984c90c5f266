#include <dlfcn.h>
#include <doctest/doctest.h>

#include "attnjit/error.hpp"
#include "cuda/driver.hpp"
#include "skip.hpp"
#include "unit/cuda_stub_driver.hpp"

using attnjit::Error;
using attnjit::ErrorKind;
using namespace attnjit::cuda;

namespace {

/// The error that `act` throws; a missing one fails the test.
template <class Act>
Error caught(Act act) {
  try {
    act();
  } catch (const Error& error) {
    return error;
  }
  FAIL("nothing was thrown");
  return Error(ErrorKind::kInternal, "");
}

bool says(const Error& error, const char* text) {
  INFO(error.what());
  const bool found = std::string(error.what()).find(text) != std::string::npos;
  CHECK_MESSAGE(found, "missing: ", text);
  return found;
}

}  // namespace

TEST_CASE("load() without libcuda names it and the way on") {
  if (void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL); library != nullptr) {
    ATTNJIT_SKIP("this machine has libcuda.so.1");
  }
  const Error error = caught([] { Driver::load(); });
  CHECK(error.kind() == ErrorKind::kNoDevice);
  CHECK(says(error, "libcuda.so.1"));
  CHECK(says(error, "docker run --gpus"));
  CHECK(says(error, "Without a GPU attnjit warmup compiles"));
}

TEST_CASE("a driver that cannot start is kNoDevice") {
  reset_stub().results["init"] = CUDA_ERROR_NO_DEVICE;
  const Error error = caught([] { Driver driver(stub_api()); });
  CHECK(error.kind() == ErrorKind::kNoDevice);
  CHECK(says(error, "CUDA error 100"));
  CHECK(says(error, "nvidia-smi"));
}

TEST_CASE("a driver older than CUDA 12.4 is refused with its version") {
  reset_stub().version = 12020;
  const Error error = caught([] { Driver driver(stub_api()); });
  CHECK(error.kind() == ErrorKind::kNoDevice);
  CHECK(says(error, "12.2"));
  CHECK(says(error, "12.4"));
}

TEST_CASE("a driver without devices is kNoDevice") {
  reset_stub().device_count = 0;
  const Error error = caught([] { Driver driver(stub_api()); });
  CHECK(error.kind() == ErrorKind::kNoDevice);
  CHECK(says(error, "CUDA_VISIBLE_DEVICES"));
}

TEST_CASE("the oldest served driver starts") {
  reset_stub().version = 12040;
  CHECK(Driver(stub_api()).driver_version() == 12040);
}

TEST_CASE("check() passes success and names what failed, with the driver's words") {
  reset_stub();
  const Driver driver(stub_api());
  driver.check(CUDA_SUCCESS, "do nothing");
  const Error error =
      caught([&] { driver.check(CUDA_ERROR_OUT_OF_MEMORY, "allocate {} bytes", 12); });
  CHECK(error.kind() == ErrorKind::kCuda);
  CHECK(std::string(error.what()) ==
        "cannot allocate 12 bytes: CUDA_ERROR_OUT_OF_MEMORY: out of memory");
}

TEST_CASE("check() survives an error that the driver has no name for") {
  reset_stub();
  const Driver driver(stub_api());
  const Error error = caught([&] { driver.check(static_cast<CUresult>(4242), "run"); });
  CHECK(std::string(error.what()) == "cannot run: CUDA error 4242");
}
