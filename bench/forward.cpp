// Times Context::forward over a file of shapes. README.md beside this says how, and what the
// figures mean.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <deque>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "attnjit/attnjit.hpp"
#include "check/device_mirror.hpp"
#include "cli/exit_code.hpp"
#include "cli/manifest.hpp"
#include "cuda/device.hpp"
#include "cuda/stream.hpp"
#include "reference/half.hpp"
#include "runtime/engine.hpp"

namespace attnjit {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kRounds = 7;
constexpr double kRoundMs = 25;                  // of kernel time that a round aims at
constexpr std::size_t kFlushBytes = 256u << 20;  // several times the L2 of any GPU

using cli::Case;
using cli::ExitCode;

struct Options {
  std::string shapes = "bench/shapes/forward.json";
  std::string filter;
  std::string output;
  std::string git;
};

Options parse_options(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    std::string* const value = flag == "--shapes"   ? &options.shapes
                               : flag == "--filter" ? &options.filter
                               : flag == "--output" ? &options.output
                               : flag == "--git"    ? &options.git
                                                    : nullptr;
    if (value == nullptr || i + 1 == argc) {
      cli::usage_error(
          "usage: bench_forward [--shapes FILE] [--filter TEXT] [--output FILE --git COMMIT]");
    }
    *value = argv[++i];
  }
  if (!options.output.empty() && options.git.empty()) {
    cli::usage_error("--output needs --git \"$(git describe --always --dirty)\" beside it");
  }
  return options;
}

std::string label(const reference::ProblemSpec& s) {
  const std::string_view kind = reference::kMaskKindNames[static_cast<std::size_t>(s.mask_kind)];
  return fmt::format("{} B{} H{}/{} Lq{} Lk{} D{}{}{}{}", reference::dtype_name(s.dtype), s.batch,
                     s.heads_q, s.heads_kv, s.seqlen_q, s.seqlen_kv, s.head_dim,
                     s.causal ? " causal" : "",
                     s.mask.empty() ? "" : fmt::format(" {} mask {}", kind, s.mask),
                     s.bias.empty() ? "" : " bias " + s.bias);
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

class Bench {
 public:
  explicit Bench(const cuda::Driver& driver)
      : driver_(driver), stream_(driver), flush_(driver, kFlushBytes) {}

  /// Milliseconds of a launch: the median of each round, sorted.
  std::vector<double> measure(const reference::ProblemSpec& spec) {
    const reference::HostProblem problem(spec, jobs_);
    const check::DeviceMirror mirror(driver_, problem);
    const ForwardArgs args = mirror.args();
    const cuda::DeviceBuffer scratch(driver_, context_.forward_workspace_size(args));
    const Workspace workspace{scratch.data(), scratch.bytes()};

    launch(args, workspace, 3);  // compiles, loads, and wakes the clocks up
    const double estimate_ms = launch(args, workspace, 3);
    const int launches = std::clamp(static_cast<int>(kRoundMs / estimate_ms), 5, 100);
    std::vector<double> rounds;
    for (int i = 0; i < kRounds; ++i) rounds.push_back(launch(args, workspace, launches));
    std::ranges::sort(rounds);
    return rounds;
  }

 private:
  // The median time of `count` launches, each with a cold L2. The flush also keeps the GPU busy
  // while the host enqueues the launch, so that none of the host's time is measured.
  double launch(const ForwardArgs& args, const Workspace& workspace, int count) {
    std::deque<cuda::Event> starts, ends;  // events do not move
    for (int i = 0; i < count; ++i) {
      cuda::fill_bytes(driver_, flush_.data(), static_cast<std::uint8_t>(i), kFlushBytes,
                       stream_.get());
      starts.emplace_back(driver_).record(stream_.get());
      context_.forward(args, stream_.get(), workspace);
      ends.emplace_back(driver_).record(stream_.get());
    }
    stream_.synchronize();
    std::vector<double> times;
    for (int i = 0; i < count; ++i) times.push_back(ends[i].elapsed_ms(starts[i]));
    return median(times);
  }

  const cuda::Driver& driver_;
  const unsigned jobs_ = base::process_environment().jobs;
  cuda::Stream stream_;
  cuda::DeviceBuffer flush_;
  Context context_;
};

/// What nvidia-smi says of each GPU now, one line each; empty without nvidia-smi.
Json query_gpus() {
  Json lines = Json::array();
  FILE* const pipe = popen(
      "nvidia-smi --format=csv,noheader --query-gpu=index,name,driver_version,clocks.sm,clocks.mem,"
      "clocks.max.sm,power.draw,temperature.gpu 2>/dev/null",
      "r");
  if (pipe == nullptr) return lines;
  char line[512];
  while (std::fgets(line, sizeof line, pipe) != nullptr) {
    lines.push_back(std::string(line, std::string_view(line).find_last_not_of('\n') + 1));
  }
  pclose(pipe);
  return lines;
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

/// The row of one case, also printed.
Json run_case(Bench& bench, const Case& c) {
  const reference::ProblemSpec& s = c.spec;
  Json row{{"name", c.name},
           {"dtype", reference::dtype_name(s.dtype)},
           {"batch", s.batch},
           {"heads_q", s.heads_q},
           {"heads_kv", s.heads_kv},
           {"seqlen_q", s.seqlen_q},
           {"seqlen_kv", s.seqlen_kv},
           {"head_dim", s.head_dim},
           {"causal", s.causal},
           {"mask", s.mask},
           {"bias", s.bias}};
  try {
    const std::vector<double> rounds = bench.measure(s);
    const double ms = rounds[kRounds / 2];
    const double dims = static_cast<double>(s.head_dim + s.value_dim());
    const double kv = static_cast<double>(s.batch * s.seqlen_kv) * dims;
    const double flop = 2 * kv * static_cast<double>(s.heads_q * s.seqlen_q);
    row["ms"] = ms;
    row["round_ms"] = rounds;
    row["tflops"] = (s.causal ? flop / 2 : flop) / ms / 1e9;
    row["kv_tb_per_s"] = 2 * kv * static_cast<double>(s.heads_kv) / ms / 1e9;
    fmt::print("{:<66} {:>9.4f} {:>6.1f}% {:>9.1f} {:>8.2f}\n", label(s), ms,
               100 * (rounds.back() / rounds.front() - 1), row["tflops"].get<double>(),
               row["kv_tb_per_s"].get<double>());
  } catch (const Error& error) {
    row["error"] = error.what();
    fmt::print("{:<66} failed: {}\n", label(s), error.what());
  }
  std::fflush(stdout);
  return row;
}

ExitCode bench_main(int argc, char** argv) {
  const Options options = parse_options(argc, argv);
  const base::Environment environment = base::process_environment();
  if (environment.disable_autotune && !options.output.empty()) {
    cli::usage_error(
        "DISABLE_AUTOTUNE is set, so these would not be the library's results, and none are "
        "written; unset it, or leave --output out");
  }
  std::vector<Case> cases;
  for (const Case& c : cli::load_manifest(options.shapes).cases) {
    if (label(c.spec).find(options.filter) == std::string::npos) continue;
    if (c.spec.causal && c.spec.seqlen_q != c.spec.seqlen_kv) {
      cli::usage_error("{}: causal but not square, so half the work is not its work", c.name);
    }
    cases.push_back(c);
  }

  const std::shared_ptr<const cuda::Driver> driver = cuda::Driver::load();
  const cuda::PrimaryContext primary(*driver);
  const cuda::DeviceInfo device = cuda::current_device(*driver);
  Json report{
      {"schema", 1},
      {"benchmark", "forward"},
      {"date", utc_now()},
      {"git", options.git},
      {"library", ATTNJIT_VERSION},
      {"compiler", runtime::Engine(environment).compiler().id()},
      {"device", {{"name", device.name}, {"arch", device.arch()}, {"sms", device.sm_count}}},
      {"driver_cuda", driver->driver_version()},
      {"rounds", kRounds},
      {"gpus_before", query_gpus()}};
  fmt::print("{}, {}\n{:<66} {:>9} {:>7} {:>9} {:>8}\n", device.name, device.arch(), "shape", "ms",
             "spread", "TFLOP/s", "KV TB/s");
  Bench bench(*driver);
  bool failed = false;
  for (const Case& c : cases) {
    report["rows"].push_back(run_case(bench, c));
    failed |= report["rows"].back().contains("error");
  }
  report["gpus_after"] = query_gpus();
  if (!options.output.empty()) {
    std::ofstream file(options.output);
    if (!(file << report.dump(2) << std::endl)) {
      throw std::runtime_error(fmt::format("cannot write {}", options.output));
    }
  }
  return failed ? ExitCode::kSomeFailed : ExitCode::kDone;
}

}  // namespace
}  // namespace attnjit

int main(int argc, char** argv) try {
  return static_cast<int>(attnjit::bench_main(argc, argv));
} catch (const attnjit::Error& error) {
  fmt::print(stderr, "bench_forward: {}\n", error.what());
  return static_cast<int>(attnjit::cli::exit_code(error.kind()));
} catch (const std::exception& error) {
  fmt::print(stderr, "bench_forward: {}\n", error.what());
  return static_cast<int>(attnjit::cli::ExitCode::kFailure);
}
