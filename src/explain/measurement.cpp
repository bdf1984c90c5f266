#include "explain/measurement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/fields_json.hpp"
#include "explain/embedded_measurements.hpp"

namespace attnjit::explain {
namespace {

constexpr std::size_t kNeighbours = 3;
constexpr double kDistanceOfEqual = 0.1;  // so that one row does not outweigh all others
constexpr double kFarthest = 1e9;         // without any row

// The time that the resources of a measured row combine to, over the time that its kernels took.
double efficiency(const Measurement& row, const Rates& rates) {
  constexpr double kLeastOfKernels = 0.3;
  const Busy seconds = busy(row.profile, rates);
  const double all = row.ms / 1e3;
  const double launches = seconds[static_cast<std::size_t>(Resource::kLaunches)];
  return combined(seconds) / std::max(all - launches, kLeastOfKernels * all);
}

}  // namespace

std::vector<Measurement> parse_measurements(std::string_view lines) {
  std::vector<Measurement> rows;
  for (std::size_t number = 1; !lines.empty(); ++number) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(std::min(lines.size(), line.size() + 1));
    if (line.empty()) continue;
    rows.push_back(base::from_json_value<Measurement>(
        base::try_parse_json(line), fmt::format("measurements, line {}", number)));
  }
  return rows;
}

std::vector<Measurement> built_in_measurements() {
  return parse_measurements(embedded_measurements());
}

double likely_error(double distance) {
  if (distance > 3) return 0.5;
  if (distance > 1.5) return 1.0 / 3;
  return distance > 0.25 ? 0.2 : 0.12;
}

Expected expect(const Profile& profile, const Rates& rates, std::span<const Measurement> rows) {
  const Rates& measured = *find_rates(kMeasuredDevice);
  Expected expected;
  for (const Measurement& row : rows) {
    if (same_work(row.profile, profile)) {
      if (expected.own == nullptr) expected.own = &row;
    } else {
      expected.nearest.push_back(&row);
    }
  }
  const std::size_t count = std::min(kNeighbours, expected.nearest.size());
  const auto of_row = [&](const Measurement* row) { return distance(row->profile, profile); };
  std::ranges::partial_sort(expected.nearest, expected.nearest.begin() + count, {}, of_row);
  expected.nearest.resize(count);
  expected.error = likely_error(count > 0 ? of_row(expected.nearest.front()) : kFarthest);

  double logs = 0, weights = 0;
  for (const Measurement* row : expected.nearest) {
    const double weight = std::pow(of_row(row) + kDistanceOfEqual, -2);
    logs += weight * std::log(efficiency(*row, measured));
    weights += weight;
  }
  expected.efficiency = weights == 0 ? 1 : std::exp(logs / weights);
  const Busy seconds = busy(profile, rates);
  const double launches = seconds[static_cast<std::size_t>(Resource::kLaunches)];
  expected.ms = 1e3 * (launches + combined(seconds) / expected.efficiency);
  return expected;
}

std::optional<RowPair> find_pair(const Profile& before, const Profile& after,
                                 std::span<const Measurement> rows) {
  constexpr double kFar = 3;     // of a row; both together may be twice that
  constexpr double kUnlike = 3;  // weight of a difference of sizes that the change does not make
  const auto near = [&](const Profile& profile) {
    std::vector<const Measurement*> list;
    for (const Measurement& row : rows) {
      if (distance(row.profile, profile) < kFar) list.push_back(&row);
    }
    return list;
  };
  const double change = distance(before, after);
  const Rates& rates = *find_rates(kMeasuredDevice);
  std::optional<RowPair> best;
  double least = 2 * kFar;
  const std::vector<const Measurement*> afters = near(after);
  for (const Measurement* from : near(before)) {
    for (const Measurement* to : afters) {
      const double apart = distance(from->profile, before) + distance(to->profile, after) +
                           kUnlike * std::abs(distance(from->profile, to->profile) - change);
      if (apart >= least || !same_change(before, after, from->profile, to->profile)) continue;
      least = apart;
      best = {from, to, efficiency(*to, rates) / efficiency(*from, rates)};
    }
  }
  return best;
}

}  // namespace attnjit::explain
