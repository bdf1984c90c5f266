#pragma once
#include <optional>
#include <string>

#include "base/json_fwd.hpp"
#include "cli/work/bench/bench_row.hpp"
#include "explain/explanation.hpp"

namespace attnjit::cli {

/// The shares of its device's peaks that a row reached, at the clock that it ran at.
struct Roofline {
  double clock_mhz = 0;     ///< of the SMs
  bool sampled = false;     ///< while the row ran; else the highest that the device has
  double tensor_share = 0;  ///< products of kept pairs over the peak of dense ones, at that clock
  double memory_share = 0;  ///< bytes of the call, each counted once, over what a copy moves
  std::string binds;        ///< the resource that is busy longest, explain::name()
};

/// Of a row whose call `explanation` explains. `highest_mhz` counts where no clock was sampled.
/// nullopt for a device without explain::Rates.
std::optional<Roofline> roofline(const Measurement& measured,
                                 const explain::Explanation& explanation, double highest_mhz);

/// "62 % tensor, 14 % memory, arithmetic of scores".
std::string describe(const Roofline& roofline);

base::Json to_json(const Roofline& roofline);

}  // namespace attnjit::cli
