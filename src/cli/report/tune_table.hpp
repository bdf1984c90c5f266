#pragma once
#include <string>
#include <vector>

#include "base/json_fwd.hpp"
#include "cli/report/tuned_problem.hpp"

namespace attnjit::cli {

/// The problems that have a record, as a table.
std::string tune_table(const std::vector<TunedProblem>& problems);

/// All of them, an object each.
base::Json tune_json(const std::vector<TunedProblem>& problems);

/// The outcome of one of them, in a few words.
std::string summary(const TunedProblem& problem);

}  // namespace attnjit::cli
