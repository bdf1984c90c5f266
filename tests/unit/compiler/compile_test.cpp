#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "attnjit/error.hpp"
#include "compiler/compiler.hpp"

namespace fs = std::filesystem;
using attnjit::Error;
using attnjit::ErrorKind;
using namespace attnjit::compiler;

namespace {

const std::string kScale = R"(
extern "C" __global__ void scale(float* data, float factor) {
  __shared__ float tile[64];
  tile[threadIdx.x] = data[threadIdx.x] * factor;
  __syncthreads();
  data[threadIdx.x] = tile[63 - threadIdx.x];
}
)";

// Two blocks of 1024 threads leave 32 registers for 64 values.
const std::string kSpilling = R"(
extern "C" __global__ void __launch_bounds__(1024, 2) spilling(const float* in, float* out) {
  float v[64];
#pragma unroll
  for (int i = 0; i < 64; ++i) v[i] = in[threadIdx.x + i * 1024];
#pragma unroll 1
  for (int k = 0; k < 8; ++k) {
#pragma unroll
    for (int i = 0; i < 64; ++i) v[i] = v[i] * v[(i + 7) & 63] + v[(i + 13) & 63];
  }
#pragma unroll
  for (int i = 0; i < 64; ++i) out[threadIdx.x + i * 1024] = v[i];
}
)";

/// A directory that is empty at first and gone at the end.
class ScratchDirectory {
 public:
  ScratchDirectory() {
    std::string name = (fs::temp_directory_path() / "attnjit-test-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~ScratchDirectory() { fs::remove_all(path_); }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

std::string read(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::string> extensions_in(const fs::path& directory) {
  std::vector<std::string> found;
  for (const auto& entry : fs::directory_iterator(directory)) {
    found.push_back(entry.path().extension().string());
  }
  std::sort(found.begin(), found.end());
  return found;
}

/// The error of a compile that must fail.
Error failure(Compiler& compiler, const std::string& source, const std::string& entry = "bad",
              const std::string& arch = "sm_80") {
  try {
    compiler.compile(source, entry, arch);
  } catch (const Error& error) {
    return error;
  }
  FAIL("nothing was thrown");
  return Error(ErrorKind::kInternal, "");
}

bool contains(const std::string& text, const std::string& part) {
  INFO(text);
  const bool found = text.find(part) != std::string::npos;
  CHECK_MESSAGE(found, "missing: ", part);
  return found;
}

/// The file that a failure message says the source was saved in.
fs::path saved_source(const std::string& message) {
  const std::size_t begin = message.find("Source: ");
  REQUIRE(begin != std::string::npos);
  const std::size_t end = message.find(".cu", begin);
  REQUIRE(end != std::string::npos);
  return message.substr(begin + 8, end + 3 - begin - 8);
}

bool is_elf(const std::vector<std::byte>& bytes) {
  return bytes.size() > 64 && bytes[0] == std::byte{0x7f} && bytes[1] == std::byte{'E'} &&
         bytes[2] == std::byte{'L'} && bytes[3] == std::byte{'F'};
}

}  // namespace

TEST_CASE("the options that decide the code are these and no others") {
  CHECK(code_options("sm_90a") == std::vector<std::string>{"-arch=sm_90a", "--std=c++20",
                                                           "--device-as-default-execution-space",
                                                           "--fmad=false"});
}

TEST_CASE("a kernel becomes a cubin with its facts") {
  Compiler compiler({});
  for (const char* arch : {"sm_80", "sm_90a"}) {
    CAPTURE(arch);
    const Compiled compiled = compiler.compile(kScale, "scale", arch);
    CHECK(is_elf(compiled.cubin));
    CHECK(compiled.facts.registers > 0);
    CHECK(compiled.facts.static_shared_bytes == 256);
    CHECK(compiled.facts.spill_store_bytes == 0);
    CHECK(compiled.facts.warnings.empty());
    // Releases of 12 stamp nothing into a cubin, so that only "12.x" is known.
    const std::string version = compiler.nvrtc().version();
    CHECK(compiled.facts.nvrtc_version.starts_with(version));
    CHECK((compiled.facts.nvrtc_version.size() > version.size() ||
           compiler.nvrtc().version_major() == 12));
    CHECK(contains(compiled.log, std::string("for '") + arch + "'"));
  }
}

TEST_CASE("spills are counted and warned of") {
  Compiler compiler({});
  for (const char* arch : {"sm_80", "sm_90a"}) {
    CAPTURE(arch);
    const Facts facts = compiler.compile(kSpilling, "spilling", arch).facts;
    CHECK(facts.registers == 32);
    CHECK(facts.spill_store_bytes > 0);
    CHECK(facts.spill_load_bytes > 0);
    CHECK(facts.stack_bytes > 0);
    REQUIRE(facts.warnings.size() == 1);
    CHECK(contains(facts.warnings[0], "spilled"));
    CHECK_FALSE(facts.serialized());
  }
}

TEST_CASE("compiling the same twice, also elsewhere, gives the same bytes") {
  Compiler first({});
  Compiler second({});
  const auto reference = first.compile(kSpilling, "spilling", "sm_90a").cubin;
  CHECK(first.compile(kSpilling, "spilling", "sm_90a").cubin == reference);
  std::vector<std::byte> from_thread;
  std::thread([&] { from_thread = second.compile(kSpilling, "spilling", "sm_90a").cubin; }).join();
  CHECK(from_thread == reference);
  CHECK(first.compile(kSpilling, "spilling", "sm_80").cubin != reference);
}

TEST_CASE("eight threads compile distinct sources, each its own") {
  constexpr int kThreads = 8;
  Compiler compiler({});
  std::vector<int> shared_bytes(kThreads, -1);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&compiler, &shared_bytes, i] {
      const std::string size = std::to_string(32 * (i + 1));
      const std::string name = "kernel_" + size;
      const std::string source = "extern \"C\" __global__ void " + name +
                                 "(float* x) { __shared__ float t[" + size +
                                 "]; t[threadIdx.x] = x[0]; __syncthreads(); "
                                 "x[threadIdx.x] = t[31 - threadIdx.x]; }";
      shared_bytes[static_cast<std::size_t>(i)] =
          compiler.compile(source, name, "sm_80").facts.static_shared_bytes;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < kThreads; ++i) {
    CHECK(shared_bytes[static_cast<std::size_t>(i)] == 128 * (i + 1));
  }
}

TEST_CASE("a source that does not compile is reported with file, line and saved source") {
  const ScratchDirectory scratch;
  Compiler compiler({}, scratch.path());
  const std::string source = "\n\nextern \"C\" __global__ void bad() { missing(); }\n";
  const Error error = failure(compiler, source);
  CHECK(error.kind() == ErrorKind::kCompile);
  const std::string message = error.what();
  CHECK(contains(message, "bad.cu(3): error"));
  CHECK(contains(message, "missing"));
  CHECK(contains(message, "kernel 'bad' for sm_80"));
  CHECK(contains(message, compiler.nvrtc().path()));
  const fs::path saved = saved_source(message);
  CHECK(saved.parent_path() == scratch.path());
  CHECK(saved.filename().string().starts_with("bad-"));
  CHECK(read(saved) == source);
}

TEST_CASE("without a dump directory a failed source goes to the temporary directory") {
  Compiler compiler({});
  const std::string source = "extern \"C\" __global__ void bad() { missing(); }  // temporary\n";
  const fs::path saved = saved_source(failure(compiler, source).what());
  CHECK(saved.parent_path() == fs::temp_directory_path());
  CHECK(saved.filename().string().starts_with("attnjit-"));
  CHECK(read(saved) == source);
  fs::remove(saved);
  fs::remove(fs::path(saved).replace_extension(".log"));
}

TEST_CASE("a TMPDIR that does not exist hides no compile error") {
  const char* before = std::getenv("TMPDIR");
  const std::string kept = before == nullptr ? "" : before;
  setenv("TMPDIR", "/missing", 1);
  Compiler compiler({});
  const Error error = failure(compiler, "int broken\n");
  before == nullptr ? unsetenv("TMPDIR") : setenv("TMPDIR", kept.c_str(), 1);
  CHECK(error.kind() == ErrorKind::kCompile);
  const fs::path saved = saved_source(error.what());
  CHECK(saved.parent_path() == "/tmp");
  fs::remove(saved);
  fs::remove(fs::path(saved).replace_extension(".log"));
}

TEST_CASE("a long log is cut in the message and whole on disk") {
  const ScratchDirectory scratch;
  Compiler compiler({}, scratch.path());
  std::string source = "extern \"C\" __global__ void bad() {\n";
  for (int i = 0; i < 40; ++i) source += "  missing_" + std::to_string(i) + "();\n";
  const std::string message = failure(compiler, source + "}\n").what();
  CHECK(contains(message, "missing_0"));
  CHECK(contains(message, " more lines\n"));
  CHECK(message.find("missing_39") == std::string::npos);
  CHECK(std::count(message.begin(), message.end(), '\n') == 42);
  fs::path log = saved_source(message);
  log.replace_extension(".log");
  CHECK(contains(message, log.string()));
  CHECK(contains(read(log), "missing_39"));
}

TEST_CASE("a source that cannot be saved does not hide the compile error") {
  Compiler compiler({}, "/proc/no/such/directory");
  const Error error = failure(compiler, "int broken\n");
  CHECK(error.kind() == ErrorKind::kCompile);
  CHECK(contains(error.what(), "Source: not saved (/proc/no/such/directory/bad-"));
}

TEST_CASE("an architecture that NVRTC does not know is found before compiling") {
  const ScratchDirectory scratch;
  Compiler compiler({}, scratch.path());
  const Error error = failure(compiler, "this is no source", "bad", "sm_42");
  CHECK(error.kind() == ErrorKind::kUnsupported);
  CHECK(contains(error.what(), "'sm_42'"));
  CHECK(contains(error.what(), "sm_80"));
  CHECK(fs::is_empty(scratch.path()));
}

TEST_CASE("a source without the entry is an internal error") {
  Compiler compiler({});
  CHECK(failure(compiler, kScale, "other").kind() == ErrorKind::kInternal);
}

TEST_CASE("every compile is dumped where that is asked for") {
  const ScratchDirectory scratch;
  Compiler compiler({}, scratch.path() / "made");
  compiler.compile(kScale, "scale", "sm_80");
  CHECK(extensions_in(scratch.path() / "made") ==
        std::vector<std::string>{".cu", ".cubin", ".log", ".ptx"});
  compiler.compile(kScale, "scale", "sm_90a");
  CHECK(extensions_in(scratch.path() / "made").size() == 8);
}

TEST_CASE("a dump directory that cannot be written is an error of the environment") {
  Compiler compiler({}, "/proc/no/such/directory");
  const Error error = failure(compiler, kScale, "scale");
  CHECK(error.kind() == ErrorKind::kInvalidEnvironment);
  CHECK(contains(error.what(), "/proc/no/such/directory"));
}

TEST_CASE("ptx() returns the text for the virtual architecture") {
  Compiler compiler({});
  const std::string ptx = compiler.ptx(kScale, "scale", "sm_90a");
  CHECK(contains(ptx, ".target sm_90a"));
  CHECK(contains(ptx, ".entry scale("));
  CHECK(ptx.find('\0') == std::string::npos);
  CHECK_THROWS_AS(compiler.ptx(kScale, "scale", "sm_42"), Error);
  CHECK_THROWS_AS(compiler.ptx("int broken", "scale", "sm_80"), Error);
}

TEST_CASE("a compiler without NVRTC says so on first use, each time") {
  Compiler compiler({.explicit_path = "/missing/libnvrtc.so.13", .directories = {}});
  for (int attempt = 0; attempt < 2; ++attempt) {
    CHECK(failure(compiler, kScale, "scale").kind() == ErrorKind::kNoCompiler);
  }
}
