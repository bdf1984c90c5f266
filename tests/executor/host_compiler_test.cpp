// The kernels that host compilers make, and the messages where one cannot.
#include "executor/host_compiler.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <functional>
#include <iterator>
#include <string>

#include "attnjit/error.hpp"
#include "bench.hpp"
#include "changed_templates.hpp"
#include "executor/host_kernel.hpp"
#include "unit/temp_directory.hpp"

namespace attnjit::executor_test {
namespace {

/// The message of the Error that `body` throws, which must be of that kind.
std::string error_of(ErrorKind kind, const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    CHECK_MESSAGE(error.kind() == kind, error.what());
    return error.what();
  }
  FAIL_CHECK("nothing was thrown");
  return "";
}

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// The message of the Error that running a small problem with `templates` throws.
std::string error_of(ErrorKind kind, codegen::TemplateSet templates,
                     const std::string& compiler = {}) {
  Bench bench(std::move(templates), 1, compiler);
  return error_of(kind, [&] { bench.forward({}, codegen::find_arch("sm_90a")); });
}

/// The compilers of this machine: g++ and clang++, or else the executor's own choice. Throws
/// Error(kNoCompiler), which fails the test, where there is none.
std::vector<std::string> compilers() {
  std::vector<std::string> found;
  for (const std::string command : {"g++", "clang++"}) {
    try {
      executor::HostCompiler(command).id();
      found.push_back(command);
    } catch (const Error&) {
      MESSAGE(command << " does not run here");
    }
  }
  if (found.empty()) {
    executor::HostCompiler().id();
    found.emplace_back();
  }
  return found;
}

const std::string kForward = "attnjit/forward/mma/kernel.cuh";
const std::string kPlace = "    load_q();  // joins the first group of copies";

TEST_CASE("host compiler: kernels of each compiler agree with the reference") {
  for (const std::string& compiler : compilers()) {
    CAPTURE(compiler);
    Bench bench({}, 1, compiler);
    CHECK(bench.forward({.mask = "11qk", .bias = "11qk"}, codegen::find_arch("sm_90a")) == "");
  }
}

TEST_CASE("host compiler: none") {
  executor::HostCompiler compiler("no-such-c++");
  CHECK(error_of(ErrorKind::kNoCompiler, [&] { compiler.id(); }) ==
        "the CPU executor needs a C++20 compiler for this machine, and no-such-c++ does not run; "
        "install g++, or set ATTNJIT_HOST_CXX to a compiler");
  CHECK_THROWS_AS(compiler.compile(""), Error);
}

TEST_CASE("host compiler: a primitive that the executor lacks is named, and who calls it") {
  for (const std::string& compiler : compilers()) {
    CAPTURE(compiler);
    const std::string message = error_of(
        ErrorKind::kCompile,
        changed_templates(kForward, kPlace, "    ptx::frobnicate(7);\n" + kPlace), compiler);
    CHECK(holds(message, "kernel [attn_fwd bf16 d64 gqa1 | "));
    CHECK(holds(
        message,
        "] for the CPU: the CPU executor has no primitive ptx::frobnicate, which "
        "attnjit/forward/mma/kernel.cuh calls: \"ptx::frobnicate(7);\"; docs/internals/executor.md "
        "tells how to add it"));
  }
}

TEST_CASE("host compiler: a header of primitives that the executor lacks is named") {
  const codegen::TemplateFile added[] = {{"attnjit/ptx/cluster.cuh", "#pragma once\n"}};
  const std::string before = "#include \"attnjit/ptx/math.cuh\"\n";
  const std::string message = error_of(
      ErrorKind::kUnsupported,
      changed_templates(kForward, before, before + "#include \"attnjit/ptx/cluster.cuh\"\n")
          .with(added));
  CHECK(message ==
        "attn_fwd cannot run on the CPU: template attnjit/executor/cluster.cuh is missing, which "
        "would stand in for the header of that name under attnjit/ptx/; docs/internals/executor.md "
        "tells how "
        "to add it");
}

TEST_CASE("host compiler: a mistake is shown with its place") {
  for (const std::string& compiler : compilers()) {
    CAPTURE(compiler);
    const std::string message =
        error_of(ErrorKind::kCompile,
                 changed_templates(kForward, kPlace, "    not_declared = 1;\n" + kPlace), compiler);
    CHECK(holds(message, "not_declared"));
    CHECK(holds(message, " in attnjit/forward/mma/kernel.cuh: \"not_declared = 1;\""));
  }
}

TEST_CASE("host compiler: nothing is left behind in the temporary directory") {
  const test::TempDirectory directory;
  const auto variable = std::getenv("TMPDIR");
  const std::string before = variable ? variable : "";
  setenv("TMPDIR", directory.path().c_str(), 1);
  executor::HostCompiler compiler;
  compiler.compile("int answer() { return 42; }");
  CHECK_THROWS_AS(compiler.compile("int answer("), Error);
  CHECK(std::filesystem::is_empty(directory.path()));
  before.empty() ? unsetenv("TMPDIR") : setenv("TMPDIR", before.c_str(), 1);
}

/// A kernel that writes `answer`.
std::string kernel_of(int answer) {
  return "#define EXPORT extern \"C\" __attribute__((visibility(\"default\")))\n"
         "inline int answer = " +
         std::to_string(answer) +
         ";\n"
         "EXPORT void attnjit_bind(const void*) {}\n"
         "EXPORT void attnjit_execute(void* const* p) { *static_cast<int*>(p[0]) = answer; }\n";
}

TEST_CASE("host kernel: goes away with its object, and the next one is another") {
  executor::HostCompiler compiler;
  for (const int answer : {1, 2, 3}) {
    const executor::HostKernel kernel(compiler.compile(kernel_of(answer)));
    int result = 0;
    void* const parameters[] = {&result};
    kernel.function()(parameters);
    CHECK(result == answer);
  }
  std::ifstream maps("/proc/self/maps");
  const std::string mapped(std::istreambuf_iterator<char>(maps), {});
  CHECK_FALSE(holds(mapped, "attnjit-kernel"));
}

TEST_CASE("host kernel: what is no kernel is an error") {
  const std::vector<std::byte> garbage(100);
  CHECK(holds(error_of(ErrorKind::kCompile, [&] { const executor::HostKernel kernel(garbage); }),
              "cannot load a host kernel: "));
  executor::HostCompiler compiler;
  const auto empty = compiler.compile("int nothing;");
  CHECK(error_of(ErrorKind::kInternal, [&] { const executor::HostKernel kernel(empty); }) ==
        "a host kernel lacks attnjit_bind");
}

}  // namespace
}  // namespace attnjit::executor_test
