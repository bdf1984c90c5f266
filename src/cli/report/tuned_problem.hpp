#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "cli/report/exit_code.hpp"
#include "tuner/fault_store.hpp"
#include "tuner/record.hpp"

namespace attnjit::cli {

/// The time of a candidate of a contest.
struct CandidateTime {
  std::string tile;  ///< as codegen::describe_tile() has it
  double us = 0;     ///< median; 0: it has none
};

constexpr auto fields(const CandidateTime*) {
  using T = CandidateTime;
  return base::fields_of<T>(base::Field{"tile", &T::tile}, base::Field{"us", &T::us});
}

/// The outcome of tuning one problem.
struct TunedProblem {
  std::string name;
  /// "gain" or "no_gain" of a contest, "recorded" of an earlier one, "same" where another problem
  /// of the run has its buckets, else "failed".
  std::string state;
  std::string text;  ///< of "same" the other problem's name, of "failed" the error; else empty
  std::optional<tuner::AnyRecord> record;
  std::optional<std::string> why_not_kept;  ///< why `record` is not on disk; nullopt: it is
  std::vector<CandidateTime> times;         ///< of a contest, configuration 0 first
  std::size_t rejected = 0;                 ///< candidates that spill or compute something else
  std::size_t known_faulty = 0;             ///< candidates that were left out
  std::vector<tuner::Fault> faults;         ///< that were met now
  ExitCode code = ExitCode::kDone;
};

}  // namespace attnjit::cli
