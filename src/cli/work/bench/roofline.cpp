#include "cli/work/bench/roofline.hpp"

#include <fmt/format.h>

#include "base/json.hpp"

namespace attnjit::cli {

std::optional<Roofline> roofline(const Measurement& measured,
                                 const explain::Explanation& explanation, double highest_mhz) {
  const explain::Rates* const rates = explain::find_rates(explanation.device);
  if (rates == nullptr) return std::nullopt;
  Roofline result;
  result.sampled = measured.clock_mhz.has_value();
  result.clock_mhz = measured.clock_mhz.value_or(highest_mhz);
  const double seconds = measured.ms() / 1e3;
  const double peak = rates->tensor_flop * result.clock_mhz / rates->tensor_mhz;
  result.tensor_share = measured.work.flop / seconds / peak;
  result.memory_share = explanation.counts.memory_bytes() / seconds / rates->copied_bytes;
  result.binds = explain::name(explain::binding(explanation.busy));
  return result;
}

std::string describe(const Roofline& roofline) {
  return fmt::format("{:.0f} % tensor, {:.0f} % memory, {}", 100 * roofline.tensor_share,
                     100 * roofline.memory_share, roofline.binds);
}

base::Json to_json(const Roofline& roofline) {
  const auto rounded = [](double share) { return std::stod(fmt::format("{:.4g}", share)); };
  return {{"clock_mhz", roofline.clock_mhz},
          {"clock_from", roofline.sampled ? "NVML, while it ran" : "the device's highest"},
          {"tensor_share", rounded(roofline.tensor_share)},
          {"memory_share", rounded(roofline.memory_share)},
          {"binds", roofline.binds}};
}

}  // namespace attnjit::cli
