#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.hpp"

namespace attnjit::cli {

/// A counter of the device, and what it says of a kernel of attention.
struct Counter {
  const char* metric;   ///< as Nsight Compute names it
  const char* name;     ///< in short
  const char* meaning;  ///< a sentence
};

/// The ten that bench --profile asks for.
std::span<const Counter> counters();

/// A counter's value in one launch.
struct CounterValue {
  const Counter* counter = nullptr;
  std::string value, unit;  ///< as ncu wrote them: "62.1", "%"
};

/// The values of counters() in what `ncu --csv --metrics ...` wrote, in their order; what it lacks
/// is left out.
std::vector<CounterValue> parse_counters(std::string_view csv);

/// The command that measures them in the first launch of `kernel` of the problem that `manifest`
/// holds, by a run of `attnjit bench --path PATH`.
std::vector<std::string> profile_command(const std::string& attnjit, const std::string& manifest,
                                         const std::string& path, const std::string& kernel);

/// Runs the problem of a line of a manifest under ncu and reads the counters of `kernel`, the main
/// one. Throws Error(kUnsupported) where there is no ncu in PATH, or it gives none.
std::vector<CounterValue> profile(const std::string& manifest_line, const std::string& path,
                                  const std::string& kernel);

base::Json to_json(const std::vector<CounterValue>& values);

}  // namespace attnjit::cli
