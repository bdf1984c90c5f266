#pragma once
#include <string>

#include "reference/accuracy.hpp"
#include "reference/host_problem.hpp"
#include "reference/rows.hpp"

namespace attnjit::check {

/// Whether a forward did what docs/semantics.md says.
struct Verdict {
  bool pass = true;
  std::string text;  ///< empty on success; else what is wrong, a line per finding
  reference::Report out;
  reference::Report lse;
};

/// Judges the outputs in `problem`: the accuracy rule per head and row on the selected rows, every
/// element written, nothing outside the outputs touched, inputs unchanged. Runs the reference on
/// `jobs` threads.
Verdict judge_forward(const reference::HostProblem& problem, const reference::Rows& rows,
                      unsigned jobs);

/// Rows to check so that the reference takes about `budget` multiply-adds: all, or a sample.
reference::Rows affordable_rows(const reference::ProblemSpec& spec, double budget);

}  // namespace attnjit::check
