#include "check/verdict.hpp"

#include <algorithm>

#include "reference/forward.hpp"

namespace attnjit::check {
namespace {

void add_finding(Verdict& verdict, const std::string& text) {
  if (text.empty()) return;
  verdict.pass = false;
  verdict.text += text;
  if (text.back() != '\n') verdict.text += '\n';
}

}  // namespace

Verdict judge_forward(const reference::HostProblem& problem, const reference::Rows& rows,
                      unsigned jobs) {
  using reference::Arithmetic;
  Verdict verdict;
  add_finding(verdict, problem.check_inputs());
  add_finding(verdict, problem.check_guards());
  add_finding(verdict, problem.check_written());

  const ForwardArgs args = problem.args();
  const auto exact = reference::forward(args, Arithmetic::kExact, rows, jobs);
  const auto rounded = reference::forward(args, Arithmetic::kRounded, rows, jobs);
  verdict.out = reference::check_output(args.out, exact.out, rounded.out, rows);
  add_finding(verdict, verdict.out.text);
  if (args.lse != nullptr) {
    verdict.lse = reference::check_lse(
        args.lse, {args.q.shape[0], args.q.shape[1], args.q.shape[2]}, exact.lse, rows);
    add_finding(verdict, verdict.lse.text);
  }
  return verdict;
}

reference::Rows affordable_rows(const reference::ProblemSpec& spec, double budget) {
  const double per_row = static_cast<double>(spec.batch) * static_cast<double>(spec.heads_q) *
                         static_cast<double>(spec.seqlen_kv) *
                         static_cast<double>(spec.head_dim + spec.value_dim());
  const auto count = static_cast<std::int64_t>(budget / std::max(per_row, 1.0));
  return reference::Rows::sample(spec.seqlen_q, std::max<std::int64_t>(count, 8), spec.seed);
}

}  // namespace attnjit::check
