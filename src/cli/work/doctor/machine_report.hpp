#pragma once
#include <string>
#include <vector>

#include "cli/work/session.hpp"

namespace attnjit::cli {

/// A topic of the doctor's report.
struct Section {
  struct Line {
    std::string name;
    std::string value;
  };
  std::string title;
  std::vector<Line> lines;
  std::vector<std::string> advice;  ///< what to do, a sentence per problem found
};

/// The parts found on this machine. None of these throws over something that is missing: that is a
/// line, and advice.
Section compiler_section(Session& session);
Section executor_section(Session& session);
Section driver_section(Session& session);
Section cache_section(Session& session);
Section bundle_section(Session& session);
Section environment_section(Session& session);

/// The counters of this process so far.
Section counter_section(Session& session);

}  // namespace attnjit::cli
