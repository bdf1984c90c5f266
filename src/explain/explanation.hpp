#pragma once
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/json_fwd.hpp"
#include "explain/measurement.hpp"

namespace attnjit::explain {

/// A row of a benchmark that an expected time comes from.
struct NearRow {
  std::string name, date;
  double ms = 0;
  double pairs = 0;  ///< of its tiles, over those of the call
};

/// The milliseconds that a change of a call takes off it; below 0: adds.
struct Gain {
  std::string what;    ///< explain::Change
  double counted = 0;  ///< by the work that kernels count, at the efficiency of the call
  /// The same, corrected as two measured calls differ that the change leads between; nullopt where
  /// no two do.
  std::optional<double> by_rows;
  std::optional<NearRow> before, after;  ///< these two
  double once_ms = 0;                    ///< before the first call

  double most() const { return std::max(counted, by_rows.value_or(counted)); }
  double least() const { return std::min(counted, by_rows.value_or(counted)); }
};

/// Why a call takes as long as it does.
struct Explanation {
  std::string name;       ///< of the problem
  std::string problem;    ///< described
  std::string device;     ///< whose rates count
  std::string tile;       ///< of the main kernel, "wgmma q128 kv128 s2"
  std::string from, why;  ///< of its configuration
  Counts counts;
  Profile profile;
  Busy busy{};             ///< seconds of each resource; zeros on a device without rates
  double expected_ms = 0;  ///< 0 on a device without rates
  std::vector<NearRow> nearest;
  double error = 0;                  ///< share by which expected_ms may be off
  std::optional<NearRow> own;        ///< of the same work
  std::vector<Gain> costs;           ///< of features that cost or save something
  std::vector<std::string> cheap;    ///< features that cost or save less than a hundredth
  std::vector<Gain> actions;         ///< those that gain, the best first
  std::vector<std::string> assumed;  ///< of what lies in device memory, a sentence each

  /// The time of the call: as measured, or else as expected.
  double time_ms() const { return own ? own->ms : expected_ms; }
  /// That over the expected time, by which gains are to be multiplied where both are there.
  double scale() const { return own ? own->ms / expected_ms : 1; }
};

/// The assumptions about tensors of a call whose values are unknown, a sentence each.
std::vector<std::string> assumptions(const problem::Problem& problem, const Values& values);

/// Lines for people, without line ends.
std::vector<std::string> lines(const Explanation& explanation);

base::Json to_json(const Explanation& explanation);

}  // namespace attnjit::explain
