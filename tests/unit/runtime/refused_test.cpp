// Intact entries that the driver does not take.
#include <doctest/doctest.h>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <vector>

#include "attnjit/error.hpp"
#include "cache/bundle_writer.hpp"
#include "runtime/call/dispatcher.hpp"
#include "unit/cache_fixtures.hpp"
#include "unit/child_process.hpp"
#include "unit/forward_fixtures.hpp"
#include "unit/runtime_fixtures.hpp"
#include "unit/silent_driver.hpp"
#include "unit/temp_directory.hpp"

using namespace attnjit;

namespace runtime_refused_test {
namespace fs = std::filesystem;

namespace {

constexpr std::byte kMark{0xee};  // in the padding of an ELF header: what a driver may refuse

ForwardArgs small_args() { return test::forward_args({.head_dim = 16, .head_dim_v = 16}); }

CUlibrary library(std::uintptr_t handle) { return reinterpret_cast<CUlibrary>(handle); }

bool is_marked(const void* cubin) { return static_cast<const std::byte*>(cubin)[EI_PAD] == kMark; }

/// A driver that does not take marked cubins.
cuda::DriverApi refuses_marked() {
  cuda::DriverApi api = test::silent_api();
  api.library_load_data = [](CUlibrary* out, const void* cubin, CUjit_option*, void**, unsigned,
                             CUlibraryOption*, void**, unsigned) {
    *out = library(0x20);
    return is_marked(cubin) ? CUDA_ERROR_NO_BINARY_FOR_GPU : CUDA_SUCCESS;
  };
  return api;
}

/// The state that two processes share.
struct Shared {
  std::atomic<int> refusals = 0;
  std::atomic<int> compiles = 0;
};
Shared& shared() {
  static void* const memory =
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  static Shared* const value = new (memory) Shared;
  return *value;
}

/// refuses_marked(), whose first refusal waits for that of another process.
cuda::DriverApi refuses_marked_together() {
  cuda::DriverApi api = refuses_marked();
  api.library_load_data = [](CUlibrary* out, const void* cubin, CUjit_option*, void**, unsigned,
                             CUlibraryOption*, void**, unsigned) {
    *out = library(0x20);
    if (!is_marked(cubin)) return CUDA_SUCCESS;
    ++shared().refusals;
    while (shared().refusals < 2) ::usleep(1000);
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
  };
  return api;
}

/// A driver that finds no kernel in marked cubins.
cuda::DriverApi finds_nothing_in_marked() {
  cuda::DriverApi api = test::silent_api();
  api.library_load_data = [](CUlibrary* out, const void* cubin, CUjit_option*, void**, unsigned,
                             CUlibraryOption*, void**, unsigned) {
    return *out = library(is_marked(cubin) ? 0x21 : 0x20), CUDA_SUCCESS;
  };
  api.library_get_kernel = [](CUkernel* out, CUlibrary from, const char*) {
    *out = reinterpret_cast<CUkernel>(0x30);
    return from == library(0x21) ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
  };
  return api;
}

/// A driver that takes nothing.
cuda::DriverApi refuses_all() {
  cuda::DriverApi api = test::silent_api();
  api.get_error_name = [](CUresult, const char**) { return CUDA_ERROR_INVALID_VALUE; };
  api.library_load_data = [](CUlibrary*, const void*, CUjit_option*, void**, unsigned,
                             CUlibraryOption*, void**,
                             unsigned) { return CUDA_ERROR_INVALID_IMAGE; };
  return api;
}

/// A cache with the kernels of small_args() for sm_80, which is the silent driver's device.
struct Machine {
  test::TempDirectory temp;
  test::Variables variables = {{"ATTNJIT_CACHE_DIR", (temp / "cache").string()},
                               {"XDG_RUNTIME_DIR", temp.path().string()},
                               {"DISABLE_AUTOTUNE", "1"}};
  test::KeepingLog log;
  cache::Store store{temp / "cache", log.log()};
  std::size_t kernels = 0;

  explicit Machine(bool marked) {
    start(test::silent_api())->prepare_forward(small_args());
    for (cache::Entry entry : entries()) {
      ++kernels;
      if (marked) entry.cubin[EI_PAD] = kMark;
      store.replace(entry);
    }
  }

  std::unique_ptr<runtime::Dispatcher> start(cuda::DriverApi api) {
    if (api.get_error_name == nullptr) {
      api.get_error_name = [](CUresult, const char**) { return CUDA_ERROR_INVALID_VALUE; };
    }
    return std::make_unique<runtime::Dispatcher>(
        test::environment(variables), [](base::LogLevel, std::string_view) {},
        std::make_shared<const cuda::Driver>(api));
  }

  std::vector<cache::Entry> entries() const {
    std::vector<cache::Entry> list;
    for (const auto& file : store.list()) list.push_back(std::get<cache::Entry>(store.read(file)));
    return list;
  }
  std::size_t marked() const {
    std::size_t count = 0;
    for (const cache::Entry& entry : entries()) count += is_marked(entry.cubin.data());
    return count;
  }
};

std::string message_of(runtime::Dispatcher& dispatcher) {
  try {
    dispatcher.forward(small_args(), nullptr, {});
  } catch (const Error& error) {
    return error.what();
  }
  FAIL_CHECK("nothing was thrown");
  return "";
}

void check_parts(const std::string& message, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    CHECK_MESSAGE(message.find(part) != std::string::npos, "missing: ", part, "\nin: ", message);
  }
}

}  // namespace

TEST_CASE("an entry that the driver does not take is compiled once, over two processes") {
  for (const auto& api : {refuses_marked(), finds_nothing_in_marked()}) {
    Machine machine(true);
    const auto first = machine.start(api);
    CHECK_NOTHROW(first->forward(small_args(), nullptr, {}));
    CHECK(first->counters().compiles == machine.kernels);
    CHECK(machine.marked() == 0);
    const auto second = machine.start(api);
    CHECK_NOTHROW(second->forward(small_args(), nullptr, {}));
    CHECK(second->counters().compiles == 0);
    CHECK(machine.store.verify().empty());
  }
}

TEST_CASE(
    "two processes that meet an entry which the driver does not take compile it once in all") {
  Machine machine(true);
  shared();
  const auto body = [&] {
    const auto dispatcher = machine.start(refuses_marked_together());
    dispatcher->prepare_forward(small_args());
    shared().compiles += static_cast<int>(dispatcher->counters().compiles);
    return true;
  };
  const pid_t first = test::start_child(body);
  const pid_t second = test::start_child(body);
  CHECK(test::succeeded(first));
  CHECK(test::succeeded(second));
  CHECK(shared().compiles.load() == static_cast<int>(machine.kernels));
  CHECK(machine.marked() == 0);
}

TEST_CASE("a cubin that the driver takes in no form is an error, and nothing is rewritten") {
  Machine machine(false);
  const fs::path path = machine.store.list().at(0).path;
  const std::string before = test::slurp(path);
  const auto written = fs::last_write_time(path);
  const auto dispatcher = machine.start(refuses_all());
  const std::string message = message_of(*dispatcher);
  check_parts(message,
              {"sm_80", "driver (CUDA 13.0)", "CUDA error 200", machine.temp.path().string(),
               "the same", "for drivers of CUDA ", "update the driver"});
  CHECK(dispatcher->counters().compiles == 1);
  CHECK(message_of(*dispatcher) == message);
  CHECK(dispatcher->counters().compiles == 1);  // never a loop
  CHECK(test::slurp(path) == before);
  CHECK(fs::last_write_time(path) == written);
}

TEST_CASE("one that is compiled anew and refused as well is an error that says both") {
  Machine machine(true);
  const auto dispatcher = machine.start(refuses_all());
  check_parts(message_of(*dispatcher),
              {"does not take one that was compiled anew (CUDA error 200)"});
  CHECK(dispatcher->counters().compiles == 1);
  message_of(*dispatcher);
  CHECK(dispatcher->counters().compiles == 1);
  CHECK(machine.marked() == machine.kernels);
}

TEST_CASE("without a compiler the error says so, and goes once the cache is warm") {
  Machine machine(true);
  machine.variables["ATTNJIT_JIT"] = "forbid";
  const auto dispatcher = machine.start(refuses_marked());
  check_parts(message_of(*dispatcher), {"does not take its cubin", "ATTNJIT_JIT=forbid"});
  CHECK(machine.marked() == machine.kernels);

  machine.variables.erase("ATTNJIT_JIT");
  machine.start(refuses_marked())->prepare_forward(small_args());
  CHECK_NOTHROW(dispatcher->forward(small_args(), nullptr, {}));
}

TEST_CASE("what the driver does not take of a bundle is compiled into the cache, once") {
  Machine machine(true);
  const fs::path path = machine.temp / "kernels.atkb";
  cache::BundleWriter writer;
  for (const cache::Entry& entry : machine.entries()) writer.add(entry);
  writer.write(path);
  const std::string before = test::slurp(path);
  machine.store.clear();
  machine.variables["ATTNJIT_BUNDLE_PATH"] = path.string();

  const auto first = machine.start(refuses_marked());
  CHECK_NOTHROW(first->forward(small_args(), nullptr, {}));
  CHECK(first->counters().compiles == machine.kernels);
  const auto second = machine.start(refuses_marked());
  CHECK_NOTHROW(second->forward(small_args(), nullptr, {}));
  CHECK(second->counters().compiles == 0);
  CHECK(test::slurp(path) == before);
  check_parts(message_of(*machine.start(refuses_all())), {path.string()});
}

}  // namespace runtime_refused_test
