#pragma once
#include <string>

#include "instance/host_problem.hpp"
#include "reference/accuracy.hpp"
#include "reference/planes.hpp"
#include "reference/rows.hpp"

namespace attnjit::check {

/// Collected faults, and whether there are none.
struct Findings {
  bool pass = true;
  std::string text;  ///< empty on success; else what is wrong, a line per finding

  /// Adds one or several lines, or nothing if `finding` is empty.
  void add(const std::string& finding);
};

/// Whether a forward did what docs/reference/semantics.md says.
struct Verdict : Findings {
  reference::Report out;
  reference::Report lse;
  reference::Report row_max;
  reference::Report max_logits;
};

/// Whether a backward did.
struct BackwardVerdict : Findings {
  reference::Report dq;
  reference::Report dk;
  reference::Report dv;
  reference::Report dbias;
  reference::Report dsink;
  std::vector<reference::Report> operands;  ///< in the order of the call, of those with gradients
};

/// Judges the outputs in `problem`: the accuracy rule per head and row on the selected rows, every
/// element written, nothing outside the outputs touched, inputs unchanged. Runs the reference on
/// `jobs` threads.
Verdict judge_forward(const instance::HostProblem& problem, const reference::Rows& rows,
                      unsigned jobs);

/// The same of the outputs of a call on host memory, by the accuracy rule alone.
Verdict judge_forward(const ForwardArgs& args, const reference::Rows& rows, unsigned jobs);
BackwardVerdict judge_backward(const BackwardArgs& args, const reference::Planes& planes,
                               unsigned jobs);

/// The same for the gradients in a backward problem, by the accuracy rule on the selected planes
/// and on the rows of dbias to which they alone add.
BackwardVerdict judge_backward(const instance::HostProblem& problem,
                               const reference::Planes& planes, unsigned jobs);

/// Rows to check so that the reference takes about `budget` multiply-adds: all, or a sample.
reference::Rows affordable_rows(const instance::ProblemSpec& spec, double budget);

/// Planes to check, chosen in the same way. Planes that add to the same rows of a wanted dbias are
/// taken together, and at least two such sets are, even if they cost more than the budget; so are
/// all planes where gradients of operands are wanted.
reference::Planes affordable_planes(const instance::ProblemSpec& spec, double budget);

}  // namespace attnjit::check
