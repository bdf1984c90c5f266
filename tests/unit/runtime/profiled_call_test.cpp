// Calls in a process that a profiler has loaded itself into, tests/assets/fake_profiler.
#include <dlfcn.h>
#include <doctest/doctest.h>

#include <string>

#include "runtime/call/dispatcher.hpp"
#include "unit/forward_fixtures.hpp"
#include "unit/runtime_fixtures.hpp"
#include "unit/silent_driver.hpp"

using namespace attnjit;

namespace {

template <class Function>
Function* of_profiler(const char* name) {
  void* const library = dlopen(FAKE_PROFILER, RTLD_NOW | RTLD_NOLOAD);
  REQUIRE_MESSAGE(library != nullptr, "NVTX has not loaded the profiler");
  return reinterpret_cast<Function*>(dlsym(library, name));
}

TEST_CASE("calls have ranges that are named by their problems while a profiler listens") {
  runtime::Dispatcher dispatcher(
      test::environment({{"ATTNJIT_CACHE_DIR", "0"}, {"DISABLE_AUTOTUNE", "1"}}), {},
      std::make_shared<const cuda::Driver>(test::silent_api()));
  const ForwardArgs args = test::forward_args({.head_dim = 16, .head_dim_v = 16});
  dispatcher.forward(args, nullptr);
  dispatcher.forward(args, nullptr);  // warm
  const std::string line = problem::describe(problem::make_problem(args)) + '\n';
  CHECK(of_profiler<const char*()>("fake_profiler_names")() == "attnjit\n" + line + line);
  CHECK(of_profiler<int()>("fake_profiler_depth")() == 0);
}

}  // namespace
