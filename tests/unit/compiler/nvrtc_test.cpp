#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "attnjit/error.hpp"
#include "compiler/compiler.hpp"
#include "compiler/nvrtc.hpp"
#include "compiler/nvrtc_identity.hpp"
#include "unit/child_process.hpp"
#include "unit/temp_directory.hpp"

using attnjit::Error;
using attnjit::ErrorKind;
using namespace attnjit::compiler;

namespace compiler_nvrtc_test {

namespace {

const std::string kFakes = FAKE_NVRTC_DIR;
const std::string kFake11 = kFakes + "/cuda_11/libnvrtc.so.11";
const std::string kFake12 = kFakes + "/cuda_12_3/libnvrtc.so.12";
const std::string kFake12WithoutCache = kFakes + "/cuda_12_8/libnvrtc.so.12";
const std::string kFakeIncomplete = kFakes + "/incomplete/libnvrtc.so.13";
const std::string kFakeNoBuiltins = kFakes + "/no_builtins/libnvrtc.so.13";

/// Opens an explicit path that must not work; the message, whose kind has been checked.
std::string refusal(const std::string& path) {
  REQUIRE((path.find("/missing/") != std::string::npos || std::filesystem::exists(path)));
  try {
    const Nvrtc nvrtc({.explicit_path = path, .directories = {}});
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kNoCompiler);
    return error.what();
  }
  FAIL("nothing was thrown");
  return {};
}

bool contains(const std::string& text, const std::string& part) {
  INFO(text);
  const bool found = text.find(part) != std::string::npos;
  CHECK_MESSAGE(found, "missing: ", part);
  return found;
}

/// The options that a compile for sm_90a passes to a fake NVRTC.
std::string options_passed_to(const std::string& fake) {
  Compiler compiler({.explicit_path = fake, .directories = {}});
  std::string message;
  try {
    compiler.compile("", "entry", "sm_90a");
  } catch (const Error& error) {
    message = error.what();
  }
  const std::size_t begin = message.find("options: ");
  REQUIRE(begin != std::string::npos);
  return message.substr(begin + 9, message.find('\n', begin) - begin - 9);
}

/// The path that a fresh process finds when it searches `directories`.
std::string probe(const std::string& directories) {
  const std::string command = std::string(NVRTC_PROBE) + " " + directories;
  FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::array<char, 4096> line{};
  REQUIRE(std::fgets(line.data(), line.size(), pipe) != nullptr);
  CHECK(pclose(pipe) == 0);
  std::string path = line.data();
  path.pop_back();
  return path;
}

}  // namespace

TEST_CASE("NVRTC is found without being told where, and knows itself") {
  const Nvrtc nvrtc({});
  CHECK(std::filesystem::path(nvrtc.path()).is_absolute());
  CHECK(std::filesystem::exists(nvrtc.path()));
  CHECK(nvrtc.version_major() >= 12);
  CHECK(nvrtc.version() ==
        std::to_string(nvrtc.version_major()) + "." + std::to_string(nvrtc.version_minor()));
  CHECK(nvrtc.id().size() == 8);
  CHECK(nvrtc.id().find_first_not_of("0123456789abcdef") == std::string::npos);
}

TEST_CASE("the same library by its path has the same identity, another one another") {
  const Nvrtc found({});
  const Nvrtc by_path({.explicit_path = found.path(), .directories = {}});
  CHECK(by_path.path() == found.path());
  CHECK(by_path.id() == found.id());
  // The fake claims 13.0 as well, so only its build id can tell it apart.
  const Nvrtc fake({.explicit_path = kFakeNoBuiltins, .directories = {}});
  CHECK(fake.id() != found.id());
}

TEST_CASE("without a build id the file tells a library, mapped or not, from an update of it") {
  const attnjit::test::TempDirectory temp;
  // Each beside builtins of its own, as files that nothing has mapped.
  const auto install = [&](const char* fake) {
    const std::filesystem::path directory = temp / fake;
    std::filesystem::create_directory(directory);
    const std::filesystem::path from = kFakes + "/" + fake + "/libnvrtc.so.12";
    std::filesystem::copy_file(kFake12WithoutCache, directory / "libnvrtc-builtins.so.12.8");
    std::filesystem::copy_file(from, directory / "libnvrtc.so.12");
    return NvrtcSearch{.explicit_path = (directory / "libnvrtc.so.12").string(), .directories = {}};
  };
  const NvrtcSearch first = install("cuda_12_8"), update = install("cuda_12_8_update");
  const auto from_files = nvrtc_id_from_files(first);
  REQUIRE(from_files);
  CHECK(*from_files != nvrtc_id_from_files(update));
  CHECK(*from_files == Nvrtc(first).id());
  CHECK(*from_files != Nvrtc(update).id());
}

TEST_CASE("an explicit path that does not open is an error, never skipped") {
  const std::string message = refusal("/missing/libnvrtc.so.13");
  CHECK(contains(message, "/missing/libnvrtc.so.13"));
  CHECK(contains(message, "ATTNJIT_NVRTC"));
  CHECK(message.find("/usr/local/cuda") == std::string::npos);
}

TEST_CASE("another major version is refused with version and path") {
  const std::string message = refusal(kFake11);
  CHECK(contains(message, "11.8"));
  CHECK(contains(message, kFake11));
  CHECK(contains(message, "12.4"));
}

TEST_CASE("12.3 is too old") { CHECK(contains(refusal(kFake12), "12.3")); }

TEST_CASE("a library that lacks an entry point is refused by its name") {
  CHECK(contains(refusal(kFakeIncomplete), "nvrtcGetCUBIN"));
}

TEST_CASE("a given directory comes before the system's own NVRTC") {
  CHECK(probe(kFakes + "/no_builtins") == kFakeNoBuiltins);
}

TEST_CASE("directories that are absent or hold an unusable NVRTC are passed over") {
  const std::string found = probe("/missing " + kFakes + "/cuda_12_3 " + kFakes + "/incomplete");
  CHECK(found == probe(""));
  CHECK(probe("/missing " + kFakes + "/cuda_12_3 " + kFakes + "/no_builtins") == kFakeNoBuiltins);
}

TEST_CASE("missing builtins are reported as an unusable compiler with the cure") {
  Compiler compiler({.explicit_path = kFakeNoBuiltins, .directories = {}});
  try {
    compiler.compile("", "entry", "sm_90a");
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kNoCompiler);
    CHECK(contains(error.what(), "failed to open libnvrtc-builtins.so"));
    CHECK(contains(error.what(), kFakeNoBuiltins));
    CHECK(contains(error.what(), "ATTNJIT_NVRTC"));
  }
}

TEST_CASE("only a source that NVRTC refuses never compiles") {
  struct Row {
    const char* result;
    ErrorKind kind;
    const char* text;
  };
  // NVRTC_ERROR_OUT_OF_MEMORY, _COMPILATION and _INTERNAL_ERROR. The last row compiles, and then
  // there is no cubin.
  for (const Row& row :
       {Row{"1", ErrorKind::kNoCompiler, "ATTNJIT_JOBS"}, Row{"6", ErrorKind::kCompile, "Source: "},
        Row{"11", ErrorKind::kNoCompiler, "ATTNJIT_NVRTC"},
        Row{"0", ErrorKind::kNoCompiler, "return the cubin"}}) {
    CAPTURE(std::string(row.result));
    ::setenv("FAKE_NVRTC_RESULT", row.result, 1);
    Compiler compiler({.explicit_path = kFakeNoBuiltins, .directories = {}});
    try {
      compiler.compile("", "entry", "sm_90a");
      FAIL("nothing was thrown");
    } catch (const Error& error) {
      CHECK(error.kind() == row.kind);
      CHECK(contains(error.what(), row.text));
    }
  }
  ::unsetenv("FAKE_NVRTC_RESULT");
}

TEST_CASE("a child forked during a compile refuses to compile, and one forked later does not") {
  const attnjit::test::TempDirectory temp;
  const std::string gate = (temp / "gate").string();
  REQUIRE(::mkfifo(gate.c_str(), 0600) == 0);
  ::setenv("FAKE_NVRTC_GATE", gate.c_str(), 1);
  Compiler compiler({.explicit_path = kFakeNoBuiltins, .directories = {}});
  const auto kind = [&] {
    try {
      compiler.compile("", "entry", "sm_90a");
    } catch (const Error& error) {
      return error.kind();
    }
    return ErrorKind::kInternal;
  };
  std::jthread compiling(kind);
  const int writer = ::open(gate.c_str(), O_WRONLY);  // returns once the compile is at the gate
  REQUIRE(writer >= 0);
  ::unsetenv("FAKE_NVRTC_GATE");
  CHECK(attnjit::test::true_in_child([&] {
    // Its own child comes no further.
    return kind() == ErrorKind::kUnsupported &&
           attnjit::test::true_in_child([&] { return kind() == ErrorKind::kUnsupported; });
  }));
  ::close(writer);
  compiling.join();
  CHECK(attnjit::test::true_in_child([&] { return kind() == ErrorKind::kNoCompiler; }));
  CHECK(kind() == ErrorKind::kNoCompiler);
}

TEST_CASE("NVRTC gets these options and no others") {
  CHECK(options_passed_to(kFakeNoBuiltins) ==
        "-arch=sm_90a --std=c++20 --device-as-default-execution-space --fmad=false --no-cache "
        "--modify-stack-limit=false --ptxas-options=-v --ptxas-options=--warn-on-spills");
}

TEST_CASE("releases before 12.9 refuse --no-cache and are not given it") {
  CHECK(options_passed_to(kFake12WithoutCache) ==
        "-arch=sm_90a --std=c++20 --device-as-default-execution-space --fmad=false "
        "--modify-stack-limit=false --ptxas-options=-v --ptxas-options=--warn-on-spills");
}

TEST_CASE("check_arch() accepts what NVRTC lists, with the suffixes that exist") {
  const Nvrtc fake({.explicit_path = kFakeNoBuiltins, .directories = {}});  // knows 80 and 90
  for (const char* arch : {"sm_80", "sm_90", "sm_90a"}) {
    CAPTURE(arch);
    CHECK_NOTHROW(fake.check_arch(arch));
  }
  for (const char* arch : {"sm_42", "sm_80a", "sm_90f", "sm_90aa", "sm_", "80", "compute_80",
                           "sm_100", "sm_-80", ""}) {
    CAPTURE(arch);
    CHECK_THROWS_AS(fake.check_arch(arch), Error);
  }
}

TEST_CASE("an unknown architecture is named with the list of known ones") {
  const Nvrtc fake({.explicit_path = kFakeNoBuiltins, .directories = {}});
  try {
    fake.check_arch("sm_120");
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kUnsupported);
    CHECK(contains(error.what(), "'sm_120'"));
    CHECK(contains(error.what(), "sm_80, sm_90"));
    CHECK(contains(error.what(), "13.0"));
  }
}

}  // namespace compiler_nvrtc_test
