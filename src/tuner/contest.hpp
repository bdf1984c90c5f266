#pragma once
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace attnjit::tuner {

/// The measuring protocol's numbers; docs/guide/tuning.md gives the reasons.
struct ContestRules {
  int rounds = 7;             ///< rounds of all candidates; finalists play twice as many more
  int least_rounds = 3;       ///< fewer rounds conclude nothing
  double hopeless = 2.0;      ///< candidates slower than this times the best leave after round 1
  std::size_t finalists = 3;  ///< the fastest candidates that play on, and with them
  double close = 0.05;        ///< all within this share of the best one's time
  double margin = 0.02;       ///< a winner saves this share of configuration 0's time
  double noise_factor = 3.0;  ///< and this many times the larger MAD
  double drift = 0.05;        ///< a larger change of configuration 0's time voids the contest
};

/// How a contest was decided.
enum class Verdict {
  kGain,    ///< the winner beats configuration 0 by the margin
  kNoGain,  ///< none does
  kDrift,   ///< the device changed speed under both attempts: keep nothing of this
  kBudget,  ///< time ran out before anything could be concluded: keep nothing of this
};

/// "gain", "no_gain", "drift", "budget".
const char* name(Verdict verdict);

struct ContestResult {
  Verdict verdict = Verdict::kNoGain;
  std::size_t winner = 0;       ///< 0, configuration 0, unless kGain
  double us = 0;                ///< median of the winner
  double mad = 0;               ///< median absolute deviation of the winner, microseconds
  double default_us = 0;        ///< median of configuration 0 in the same rounds
  int rounds = 0;               ///< that the medians are over
  bool partial = false;         ///< time ran out before the last round
  std::vector<double> medians;  ///< of each candidate, in the last rounds that it played; 0: none

  double gain() const { return default_us > 0 ? 1 - us / default_us : 0; }
  /// Whether it is worth a record.
  bool conclusive() const { return verdict == Verdict::kGain || verdict == Verdict::kNoGain; }
};

/// Times `count` candidates against each other; candidate 0 is configuration 0, and wins unless
/// another is faster by more than the margin and the noise. Candidates take turns, so that a change
/// of clocks meets all alike. `measure` gives microseconds of one candidate; one that throws Error
/// is out, but for candidate 0, whose Error ends the contest. `expired` is asked before each
/// measurement. Equal measurements give equal results.
ContestResult hold_contest(std::size_t count, const std::function<double(std::size_t)>& measure,
                           const std::function<bool()>& expired, const ContestRules& rules = {});

}  // namespace attnjit::tuner
