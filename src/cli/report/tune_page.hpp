#pragma once
#include <string>
#include <vector>

#include "cli/report/tuned_problem.hpp"

namespace attnjit::cli {

/// Where and when problems were tuned: the head of the page.
struct TunePageHead {
  std::string device;
  int driver = 0;  ///< CUDA version, 1000 * major + 10 * minor
  std::string date;
  std::vector<std::string> before;  ///< the state of each GPU then, clocks included
  std::vector<std::string> after;   ///< the same when all were tuned
};

/// A page of HTML that needs no other file: of each problem the times of its candidates as a table
/// with bars, configuration 0 and the winner marked. Names are escaped.
std::string tune_page(const TunePageHead& head, const std::vector<TunedProblem>& problems);

}  // namespace attnjit::cli
