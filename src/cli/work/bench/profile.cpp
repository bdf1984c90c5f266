#include "cli/work/bench/profile.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "attnjit/error.hpp"
#include "base/child_process.hpp"
#include "base/environment.hpp"
#include "base/json.hpp"
#include "base/temporary_name.hpp"
#include "cli/report/output_file.hpp"

namespace attnjit::cli {
namespace {

constexpr Counter kCounters[] = {
    {"gpu__time_duration.sum", "time",
     "of this launch, at the clock that ncu fixes: compare shares, not times"},
    {"sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active", "tensor pipes",
     "near 100 %: products bind, and only fewer pairs or head dims help"},
    {"sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active", "exponential units",
     "near 100 %: exponentials and tanh bind, as with small head dims or capped scores"},
    {"sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active", "FMA pipes",
     "near 100 %: arithmetic of scores binds: bias, slopes, rescaling"},
    {"sm__inst_executed_pipe_alu.avg.pct_of_peak_sustained_active", "ALU pipes",
     "near 100 %: comparisons and conversions bind: masks, fp32 to 16 bits"},
    {"dram__throughput.avg.pct_of_peak_sustained_elapsed", "memory",
     "near 90 %: memory binds, and only fewer bytes help: a smaller mask or bias"},
    {"dram__bytes_read.sum", "bytes read",
     "more than explain counts: tensors come again, for L2 does not hold them"},
    {"dram__bytes_write.sum", "bytes written",
     "more than out, or gradients and workspace: sums leave L2"},
    {"lts__t_sector_hit_rate.pct", "L2 hits",
     "low in a prefill: tiles of k, v or a bias are not shared between thread blocks in time"},
    {"sm__warps_active.avg.pct_of_peak_sustained_active", "warps",
     "low beside idle pipes: too few tiles, or registers and shared memory leave room for few"},
};

// The cells of a line of CSV whose cells are all quoted.
std::vector<std::string> cells(std::string_view line) {
  std::vector<std::string> list;
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') {
      quoted = !quoted;
      if (quoted) list.emplace_back();
    } else if (quoted) {
      list.back() += c;
    }
  }
  return list;
}

std::size_t place_of(const std::vector<std::string>& header, std::string_view column) {
  return static_cast<std::size_t>(std::ranges::find(header, column) - header.begin());
}

// A manifest of one line, for as long as this lives.
class TemporaryManifest {
 public:
  explicit TemporaryManifest(const std::string& line)
      : path_(base::temporary_directory() / base::temporary_name()) {
    write_file(path_.string(), line + '\n');
  }
  ~TemporaryManifest() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  TemporaryManifest(const TemporaryManifest&) = delete;
  TemporaryManifest& operator=(const TemporaryManifest&) = delete;

  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

// All that the program writes. Throws Error(kUnsupported) where there is no such program.
std::string output_of(const std::vector<std::string>& command) {
  constexpr std::chrono::minutes kPatience(10);
  std::string text, line;
  try {
    base::ChildProcess child(command);
    while (child.receive(line, kPatience) == base::ChildProcess::Received::kLine) {
      text += line + '\n';
    }
  } catch (const Error& error) {
    throw Error(
        ErrorKind::kUnsupported,
        fmt::format("--profile: {}; install Nsight Compute, and put ncu into PATH", error.what()));
  }
  return text;
}

}  // namespace

std::span<const Counter> counters() { return kCounters; }

std::vector<CounterValue> parse_counters(std::string_view csv) {
  std::vector<CounterValue> values;
  std::vector<std::string> header;
  while (!csv.empty()) {
    const std::string_view line = csv.substr(0, csv.find('\n'));
    csv.remove_prefix(std::min(csv.size(), line.size() + 1));
    const std::vector<std::string> row = cells(line);
    const std::size_t metric = place_of(header, "Metric Name");
    if (metric == header.size()) {
      if (place_of(row, "Metric Name") < row.size()) header = row;
      continue;
    }
    if (row.size() != header.size()) continue;
    const auto* const counter = std::ranges::find(kCounters, row[metric], &Counter::metric);
    const std::size_t value = place_of(header, "Metric Value"),
                      unit = place_of(header, "Metric Unit");
    if (counter == std::end(kCounters) || value == row.size() || unit == row.size()) continue;
    values.push_back({counter, row[value], row[unit]});
  }
  std::ranges::stable_sort(values, {}, &CounterValue::counter);
  return values;
}

std::vector<std::string> profile_command(const std::string& attnjit, const std::string& manifest,
                                         const std::string& path, const std::string& kernel) {
  std::vector<std::string> metrics;
  for (const Counter& each : kCounters) metrics.emplace_back(each.metric);
  return {"ncu",
          "--csv",
          "--metrics",
          fmt::format("{}", fmt::join(metrics, ",")),
          "--kernel-name",
          kernel,
          "--launch-count",
          "1",
          attnjit,
          "bench",
          "--quiet",
          "--path",
          path,
          "--manifest",
          manifest};
}

std::vector<CounterValue> profile(const std::string& manifest_line, const std::string& path,
                                  const std::string& kernel) {
  const TemporaryManifest manifest(manifest_line);
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string text = output_of(profile_command(self, manifest.path(), path, kernel));
  std::vector<CounterValue> values = parse_counters(text);
  if (values.empty()) {
    constexpr std::size_t kShown = 500;
    throw Error(ErrorKind::kUnsupported,
                fmt::format("--profile: ncu gave no counters of {}; it wrote: {}", kernel,
                            text.substr(text.size() - std::min(text.size(), kShown))));
  }
  return values;
}

base::Json to_json(const std::vector<CounterValue>& values) {
  base::Json list = base::Json::array();
  for (const CounterValue& each : values) {
    list.push_back({{"metric", each.counter->metric},
                    {"name", each.counter->name},
                    {"value", each.value},
                    {"unit", each.unit},
                    {"meaning", each.counter->meaning}});
  }
  return list;
}

}  // namespace attnjit::cli
