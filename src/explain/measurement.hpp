#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "explain/rates.hpp"

namespace attnjit::explain {

/// A committed row of a benchmark, on an H200.
struct Measurement {
  std::string name;  ///< of the row, "hopper: dense D128 L8192"
  std::string date;  ///< "2026-11-28"
  double ms = 0;     ///< median launch, inputs not in L2
  Profile profile;   ///< of the kernels that ran
};

constexpr auto fields(const Measurement*) {
  using M = Measurement;
  return base::fields_of<M>(base::Field{"name", &M::name}, base::Field{"date", &M::date},
                            base::Field{"ms", &M::ms}, base::Field{"profile", &M::profile});
}

/// The device of all measurements.
inline constexpr std::string_view kMeasuredDevice = "NVIDIA H200", kMeasuredArch = "sm_90a";

/// Reads JSON lines. Throws Error(kInvalidEnvironment) that names the line and what is wrong there.
std::vector<Measurement> parse_measurements(std::string_view lines);

/// Those of configs/measurements, which are built in.
std::vector<Measurement> built_in_measurements();

/// The time expected of a call, and where it comes from.
struct Expected {
  double ms = 0;
  double efficiency = 0;  ///< of the nearest rows: what their resources say over what they took
  std::vector<const Measurement*> nearest;  ///< of `rows`, the nearest first
  double error = 0;                         ///< likely_error() of the nearest
  const Measurement* own = nullptr;  ///< the first row of the same work; these predict nothing
};

/// The share by which a time may be off whose nearest row is at that distance(): nine in ten of the
/// measured rows, left out themselves, are no further off.
double likely_error(double distance);

/// The time that `rates` combine to, corrected as much as the nearest of `rows` are, those of the
/// same work left out: three, by the inverse square of their distance.
Expected expect(const Profile& profile, const Rates& rates, std::span<const Measurement> rows);

/// Two measured calls of which the second is to the first what a call after a change is to it
/// before.
struct RowPair {
  const Measurement* before = nullptr;
  const Measurement* after = nullptr;
  double efficiency = 1;  ///< of `after` over that of `before`
};

/// Those of `rows` that are nearest to `before` and `after` and whose traits change as theirs do;
/// nullopt where none change, or no two rows are near.
std::optional<RowPair> find_pair(const Profile& before, const Profile& after,
                                 std::span<const Measurement> rows);

}  // namespace attnjit::explain
