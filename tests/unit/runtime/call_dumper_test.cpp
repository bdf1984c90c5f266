// ATTNJIT_DUMP_CALLS, on a device that does not exist.
#include <doctest/doctest.h>

#include <cstring>

#include "dump/folder.hpp"
#include "dump/reader.hpp"
#include "unit/cache_fixtures.hpp"
#include "unit/tuning_fixtures.hpp"

using namespace attnjit;
using attnjit::test::FakeDevice;
using runtime::Dispatcher;
namespace fs = std::filesystem;

namespace dumper_test {

constexpr std::uint64_t kMemory = std::uint64_t{1} << 30;

// A forward of one head in the device's memory, which is the host's.
struct Tensors {
  std::vector<std::uint16_t> q, k, v, out;
  explicit Tensors(std::int64_t rows)
      : q(rows * 16, 0x3c00), k(40 * 16, 0x4000), v(40 * 16, 0x4200), out(rows * 16, 0) {}

  ForwardArgs args() {
    const auto rows = static_cast<std::int64_t>(q.size()) / 16;
    ForwardArgs args;
    args.q = Tensor::contiguous(q.data(), DType::kFloat16, {1, 1, rows, 16});
    args.k = Tensor::contiguous(k.data(), DType::kFloat16, {1, 1, 40, 16});
    args.v = Tensor::contiguous(v.data(), DType::kFloat16, {1, 1, 40, 16});
    args.out = Tensor::contiguous(out.data(), DType::kFloat16, {1, 1, rows, 16});
    return args;
  }
};

// A cache of kernels that all cases share.
fs::path kernels() {
  static const test::TempDirectory directory;
  return directory.path();
}

// A process with a variable ATTNJIT_DUMP_CALLS, and what it warns of.
struct Process {
  test::TempDirectory temp;
  FakeDevice device;
  fs::path folder = temp / "calls";
  std::vector<std::string> warnings;
  std::unique_ptr<Dispatcher> dispatcher;

  explicit Process(const std::string& suffix = "", int mode = 0) {
    if (mode != 0) {
      fs::create_directory(folder);
      fs::permissions(folder, static_cast<fs::perms>(mode));
    }
    const auto environment = test::environment({{"ATTNJIT_CACHE_DIR", kernels().string()},
                                                {"XDG_RUNTIME_DIR", temp.path().string()},
                                                {"ATTNJIT_DUMP_CALLS", folder.string() + suffix},
                                                {"DISABLE_AUTOTUNE", "1"}});
    const auto sink = [this](base::LogLevel level, std::string_view text) {
      if (level == base::LogLevel::kWarning) warnings.emplace_back(text);
    };
    dispatcher = std::make_unique<Dispatcher>(environment, sink, device.driver());
  }

  // Whether one line has `text`.
  bool warned(std::string_view text) const {
    return std::ranges::count_if(warnings, [&](const std::string& line) {
             return line.find(text) != line.npos;
           }) == 1;
  }
};

TEST_CASE("ATTNJIT_DUMP_CALLS has a call on disk before its launch, and its results after it") {
  Process process;
  Tensors tensors(30);
  std::size_t before = 0;
  FakeDevice::run() = [&](const CUlaunchConfig&) {
    const auto files = dump::list_calls(process.folder);
    before = files.size();
    CHECK_FALSE(dump::CallFile::open(files.front()).load_results());
    tensors.out[0] = 0x1234;
  };
  process.dispatcher->forward(tensors.args(), nullptr, {});
  FakeDevice::run() = [](const CUlaunchConfig&) {};
  CHECK(before == 1);
  CHECK_FALSE(process.warned("ATTNJIT_DUMP_CALLS"));

  const auto files = dump::list_calls(process.folder);
  REQUIRE(files.size() == 1);
  const dump::CallFile file = dump::CallFile::open(files.front());
  CHECK(file.origin().problem == problem::describe(problem::make_problem(tensors.args())));
  CHECK(file.origin().arch == "sm_90a");
  CHECK(file.origin().config.starts_with("{\"path\":"));
  CHECK(file.origin().manifest_line.starts_with("{\"name\":"));
  const dump::HostCall loaded = file.load(kMemory);
  CHECK(std::memcmp(loaded.call().forward_args().q.data, tensors.q.data(), 960) == 0);
  const dump::Results results = file.load_results().value();
  const auto out = std::ranges::find(loaded.parts(), "out", &dump::Part::name);
  const auto& bytes = results[static_cast<std::size_t>(out - loaded.parts().begin())];
  REQUIRE(bytes.size() == 960);
  CHECK(std::memcmp(bytes.data(), tensors.out.data(), 960) == 0);
}

TEST_CASE("only the first calls are kept, those of a shape that was seen before too") {
  Process process(":3");
  Tensors tensors(30);
  for (int i = 0; i < 5; ++i) process.dispatcher->forward(tensors.args(), nullptr, {});
  const auto files = dump::list_calls(process.folder);
  REQUIRE(files.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(dump::CallFile::open(files[i]).origin().number == static_cast<std::int64_t>(i) + 1);
  }
}

TEST_CASE("a call whose kernel faults is on disk without results, and the call goes on") {
  Process process;
  Tensors tensors(30);
  FakeDevice::run() = [](const CUlaunchConfig&) { FakeDevice::lose_context(); };
  CHECK_NOTHROW(process.dispatcher->forward(tensors.args(), nullptr, {}));
  FakeDevice::run() = [](const CUlaunchConfig&) {};
  CHECK(process.warned("call 1: its results cannot be read: "));
  const auto files = dump::list_calls(process.folder);
  REQUIRE(files.size() == 1);
  CHECK_FALSE(dump::CallFile::open(files.front()).load_results());
}

TEST_CASE("a call in a capture is not kept, which is said once") {
  Process process;
  Tensors tensors(30);
  cuda::stub().capture_status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  for (int i = 0; i < 2; ++i) process.dispatcher->forward(tensors.args(), nullptr, {});
  cuda::stub().capture_status = CU_STREAM_CAPTURE_STATUS_NONE;
  CHECK(process.warned("calls in a stream capture are not kept"));
  CHECK(dump::list_calls(process.folder).empty());
  process.dispatcher->forward(tensors.args(), nullptr, {});
  CHECK(dump::list_calls(process.folder).size() == 1);
}

TEST_CASE("a folder that others may write to gets no calls") {
  Process process("", 0777);
  Tensors tensors(30);
  process.dispatcher->forward(tensors.args(), nullptr, {});
  CHECK(process.warned("gets no calls: everyone may write to it"));
  CHECK(dump::list_calls(process.folder).empty());
}

TEST_CASE("a folder that is gone costs a warning, and no call") {
  Process process;
  Tensors tensors(30);
  fs::remove_all(process.folder);
  for (int i = 0; i < 2; ++i) process.dispatcher->forward(tensors.args(), nullptr, {});
  CHECK(process.warned("its inputs cannot be written (open: "));
}

}  // namespace dumper_test
