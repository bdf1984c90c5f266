#include "check/verdict.hpp"

#include <algorithm>
#include <string_view>

#include "reference/backward.hpp"
#include "reference/forward.hpp"

namespace attnjit::check {
namespace {

using reference::Arithmetic;

void judge_memory(const instance::HostProblem& problem, Findings& findings) {
  findings.add(problem.check_inputs());
  findings.add(problem.check_guards());
  findings.add(problem.check_written());
}

double multiply_adds(const instance::ProblemSpec& spec, std::int64_t rows) {
  return static_cast<double>(rows) * static_cast<double>(spec.seqlen_kv) *
         static_cast<double>(spec.head_dim + spec.value_dim());
}

}  // namespace

void Findings::add(const std::string& finding) {
  if (finding.empty()) return;
  pass = false;
  text += finding;
  if (text.back() != '\n') text += '\n';
}

Verdict judge_forward(const instance::HostProblem& problem, const reference::Rows& rows,
                      unsigned jobs) {
  Verdict verdict;
  judge_memory(problem, verdict);

  const ForwardArgs args = problem.args();
  const auto exact = reference::forward(args, Arithmetic::kExact, rows, jobs);
  const auto rounded = reference::forward(args, Arithmetic::kRounded, rows, jobs);
  verdict.out = reference::check_output(args.out, exact.out, rounded.out, rows);
  verdict.add(verdict.out.text);
  if (args.lse != nullptr) {
    verdict.lse = reference::check_lse(
        args.lse, {args.q.shape[0], args.q.shape[1], args.q.shape[2]}, exact.lse, rows);
    verdict.add(verdict.lse.text);
  }
  return verdict;
}

BackwardVerdict judge_backward(const instance::HostProblem& problem,
                               const reference::Planes& planes, unsigned jobs) {
  BackwardVerdict verdict;
  judge_memory(problem, verdict);

  const BackwardArgs args = problem.backward_args();
  const auto exact = reference::backward(args, Arithmetic::kExact, planes, jobs);
  const auto rounded = reference::backward(args, Arithmetic::kRounded, planes, jobs);
  const auto judge = [&](std::string_view name, const Tensor& got,
                         reference::Gradient reference::BackwardResult::*which) {
    const reference::Report report =
        reference::check_gradient(got, args.forward.q.dtype, exact.*which, rounded.*which);
    verdict.add(report.pass ? "" : std::string(name) + ":\n" + report.text);
    return report;
  };
  verdict.dq = judge("dq", args.dq, &reference::BackwardResult::dq);
  verdict.dk = judge("dk", args.dk, &reference::BackwardResult::dk);
  verdict.dv = judge("dv", args.dv, &reference::BackwardResult::dv);
  if (args.dbias) {
    verdict.dbias = judge("dbias", *args.dbias, &reference::BackwardResult::dbias);
  }
  if (args.dsink) {
    verdict.dsink = judge("dsink", *args.dsink, &reference::BackwardResult::dsink);
  }
  return verdict;
}

reference::Rows affordable_rows(const instance::ProblemSpec& spec, double budget) {
  const double per_row = multiply_adds(spec, spec.tensor_batch() * spec.heads_q);
  const auto count = static_cast<std::int64_t>(budget / std::max(per_row, 1.0));
  return reference::Rows::sample(spec.seqlen_q, std::max<std::int64_t>(count, 8), spec.seed);
}

reference::Planes affordable_planes(const instance::ProblemSpec& spec, double budget) {
  constexpr double kProducts = 5;  // of the size that out takes: S twice, dP, dS and P
  const std::int64_t batch = spec.tensor_batch();
  const bool join_batches = spec.want_dsink || (spec.want_dbias && spec.bias[0] == '1');
  const bool join_heads = spec.want_dbias && spec.bias[1] == '1';
  const std::int64_t batches = join_batches ? batch : 1;  // of one set
  const std::int64_t heads = join_heads ? spec.heads_kv : 1;
  const std::int64_t head_sets = spec.heads_kv / heads;
  const std::int64_t sets = batches == 0 ? 0 : batch / batches * head_sets;

  const std::int64_t rows = batches * heads * spec.heads_q / spec.heads_kv * spec.seqlen_q;
  const double per_set = kProducts * multiply_adds(spec, rows);
  const auto count = static_cast<std::int64_t>(budget / std::max(per_set, 1.0));
  const reference::Rows chosen =
      reference::Rows::sample(sets, std::max<std::int64_t>(count, 2), spec.seed);
  if (chosen.all) {
    return reference::Planes::every();
  }
  std::vector<reference::Plane> planes;
  for (const std::int64_t set : chosen.list) {
    for (std::int64_t index = 0; index < batches * heads; ++index) {
      planes.push_back(
          {set / head_sets * batches + index / heads, set % head_sets * heads + index % heads});
    }
  }
  return reference::Planes::only(std::move(planes));
}

}  // namespace attnjit::check
