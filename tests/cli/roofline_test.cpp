#include "cli/work/bench/roofline.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "base/json.hpp"
#include "cli/report/bench_page.hpp"
#include "cli/work/bench/clock_samples.hpp"
#include "cli/work/bench/peer_times.hpp"
#include "cli/work/bench/profile.hpp"
#include "cli_fixtures.hpp"

namespace attnjit::cli {
namespace {

TEST_CASE("a roofline is the work over the peaks at the clock of the row") {
  explain::Explanation explanation{.device = "NVIDIA H200"};
  explanation.counts.traffic = {{"q", 2.1e9}};
  explanation.busy = {2e-3, 1e-3, 0, 0.5e-3, 5e-6};
  Measurement measured{.round_ms = {1, 1, 1}, .work = {.flop = 989e9 / 2}};
  const auto at_highest = roofline(measured, explanation, 1830);
  REQUIRE(at_highest);
  CHECK_FALSE(at_highest->sampled);
  CHECK(at_highest->tensor_share == doctest::Approx(0.5));
  CHECK(at_highest->memory_share == doctest::Approx(0.5));
  CHECK(describe(*at_highest) == "50 % tensor, 50 % memory, tensor cores");

  measured.clock_mhz = 915;
  const auto slow = roofline(measured, explanation, 1830);
  CHECK(slow->sampled);
  CHECK(slow->tensor_share == doctest::Approx(1.0));
  CHECK(slow->memory_share == doctest::Approx(0.5));
  explanation.device = "a device without rates";
  CHECK_FALSE(roofline(measured, explanation, 1830));
}

TEST_CASE("a clock is sampled until its median is asked for") {
  std::atomic<int> reads = 0;
  ClockSamples samples([&]() -> std::optional<double> {
    ++reads;
    return reads == 1 ? 100.0 : 1700.0;
  });
  while (reads < 4) std::this_thread::yield();
  CHECK(samples.median() == 1700.0);
  const int last = reads;
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(reads == last);
  CHECK_FALSE(ClockSamples([] { return std::nullopt; }).median());
}

const base::Json kReport = {
    {"device", {{"name", "a <GPU>"}}},
    {"date", "2026-11-28"},
    {"library", "0.1.0"},
    {"git", ""},
    {"rows",
     {{{"name", "a & b"},
       {"ms", 0.5},
       {"roofline",
        {{"tensor_share", 0.62}, {"memory_share", 0.1}, {"binds", "memory"}, {"clock_mhz", 1700}}}},
      {{"name", "failed"}, {"error", "no memory"}}}}};

TEST_CASE("the page of a benchmark has bars, what binds, and peers beside") {
  const std::string page = bench_page(kReport, {{"a & b", {{"cudnn", 0.6}}}});
  for (const char* part : {"a &lt;GPU&gt;", "a &amp; b", "62 %", "width:62.0%", "<td>memory</td>",
                           "1700 MHz", "cudnn 0.6000 (1.20)"}) {
    CHECK_MESSAGE(page.find(part) != std::string::npos, part);
  }
  CHECK(page.find("failed") == std::string::npos);
}

TEST_CASE("peers are read by the names of rows, and a file of something else is refused") {
  const test::TempDirectory directory;
  const std::string file = (directory.path() / "peers.json").string();
  test::write_file(file, R"({"rows": [{"name": "a", "backends": {"cudnn": {"ms": 0.5},
                                                     "flash": {"error": "no"}}},
                                      {"name": 7, "backends": {}}, 8, {"name": "b", "backends": []}]})");
  PeerTimes peers;
  read_peers(file, peers);
  REQUIRE(peers["a"].size() == 1);
  CHECK(peers["a"][0].backend == "cudnn");
  CHECK(peers.size() == 1);
  test::write_file(file, "[]");
  const std::string message =
      test::error_of(ErrorKind::kInvalidEnvironment, [&] { read_peers(file, peers); });
  CHECK(message.find("has no rows; expected what bench/peers.py --output wrote") !=
        std::string::npos);
}

constexpr const char* kCsv =
    "==PROF== Connected to process 7\n"
    "\"ID\",\"Kernel Name\",\"Metric Name\",\"Metric Unit\",\"Metric Value\"\n"
    "\"0\",\"attn_fwd\",\"sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active\",\"%\","
    "\"61.5\"\n"
    "\"0\",\"attn_fwd\",\"unknown.sum\",\"\",\"1\"\n"
    "\"0\",\"attn_fwd\",\"gpu__time_duration.sum\",\"us\",\"1,234.5\"\n";

TEST_CASE("counters are read from what ncu writes, each with what it means") {
  const auto values = parse_counters(kCsv);
  REQUIRE(values.size() == 2);
  CHECK(std::string(values[0].counter->name) == "time");
  CHECK(values[0].value == "1,234.5");
  CHECK(std::string(values[1].counter->name) == "tensor pipes");
  CHECK(values[1].unit == "%");
  CHECK(parse_counters("==ERROR== no permission\n").empty());
  CHECK(counters().size() == 10);
  for (const Counter& each : counters()) CHECK(std::string(each.meaning).size() > 20);
}

// PATH with `directory` alone, for as long as this lives.
class OnlyPath {
 public:
  explicit OnlyPath(const std::string& directory) : before_(std::getenv("PATH")) {
    ::setenv("PATH", directory.c_str(), 1);
  }
  ~OnlyPath() { ::setenv("PATH", before_.c_str(), 1); }

 private:
  std::string before_;
};

TEST_CASE("a profile runs ncu, and says where there is none or it gives nothing") {
  const test::TempDirectory directory;
  const OnlyPath path(directory.path().string());
  const auto run = [] { return profile("{\"heads\": 8}", "auto", "attn_fwd"); };
  CHECK(test::error_of(ErrorKind::kUnsupported, run).find("install Nsight Compute") !=
        std::string::npos);
  const auto ncu = directory.path() / "ncu";
  const auto write_ncu = [&](const std::string& script) {
    test::write_file(ncu, "#!/bin/sh\n" + script);
    std::filesystem::permissions(ncu, std::filesystem::perms::owner_all);
  };
  write_ncu("echo '==ERROR== ERR_NVGPUCTRPERM'\n");
  CHECK(test::error_of(ErrorKind::kUnsupported, run).find("ERR_NVGPUCTRPERM") != std::string::npos);
  write_ncu(std::string("[ \"$5\" = attn_fwd ] || exit 1\n/bin/cat <<'END'\n") + kCsv + "END\n");
  CHECK(profile("{\"heads\": 8}", "auto", "attn_fwd").size() == 2);
}

}  // namespace
}  // namespace attnjit::cli
