#include "check/verdict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "reference/backward.hpp"
#include "reference/forward.hpp"

namespace attnjit::check {
namespace {

using reference::Arithmetic;

// The findings on what lies around the outputs of `problem`, with `verdict` after them.
template <class AnyVerdict>
AnyVerdict with_memory(const instance::HostProblem& problem, AnyVerdict verdict) {
  Findings findings;
  findings.add(problem.check_inputs());
  findings.add(problem.check_guards());
  findings.add(problem.check_written());
  findings.add(verdict.text);
  static_cast<Findings&>(verdict) = std::move(findings);
  return verdict;
}

// Maxima of heads are exactly those of the rows that were written, whichever rows the reference
// has.
std::string compare_maxima(const ForwardArgs& args) {
  if (args.row_max == nullptr || args.max_logits == nullptr) return "";
  const auto& [batch, heads, rows, head_dim] = args.q.shape;
  std::vector<float> highest(static_cast<std::size_t>(heads),
                             -std::numeric_limits<float>::infinity());
  for (std::int64_t i = 0; i < batch * heads * rows; ++i) {
    float& of_head = highest[static_cast<std::size_t>(i / rows % heads)];
    of_head = std::fmax(of_head, args.row_max[i]);
  }
  for (std::int64_t head = 0; head < heads; ++head) {
    const float want = highest[static_cast<std::size_t>(head)];
    if (args.max_logits[head] == want) continue;
    return fmt::format("max_logits: head {} has {:.9g}; the largest of its row_max is {:.9g}", head,
                       args.max_logits[head], want);
  }
  return "";
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
  return with_memory(problem, judge_forward(problem.args(), rows, jobs));
}

Verdict judge_forward(const ForwardArgs& args, const reference::Rows& rows, unsigned jobs) {
  Verdict verdict;
  const auto exact = reference::forward(args, Arithmetic::kExact, rows, jobs);
  const auto rounded = reference::forward(args, Arithmetic::kRounded, rows, jobs);
  verdict.out = reference::check_output(args.out, exact.out, rounded.out, rows);
  verdict.add(verdict.out.text);
  const std::array<std::int64_t, 3> shape{args.q.shape[0], args.q.shape[1], args.q.shape[2]};
  if (args.lse != nullptr) {
    verdict.lse = reference::check_lse(args.lse, shape, exact.lse, rows, "lse", exact.score_errors);
    verdict.add(verdict.lse.text);
  }
  if (args.row_max != nullptr) {
    verdict.row_max = reference::check_lse(args.row_max, shape, exact.row_max, rows, "row_max",
                                           exact.score_errors);
    verdict.add(verdict.row_max.text);
  }
  if (args.max_logits != nullptr) {
    verdict.max_logits = reference::check_max_logits(args.max_logits, shape, exact.row_max, rows,
                                                     exact.score_errors);
    verdict.add(verdict.max_logits.text);
    verdict.add(compare_maxima(args));
  }
  return verdict;
}

BackwardVerdict judge_backward(const instance::HostProblem& problem,
                               const reference::Planes& planes, unsigned jobs) {
  return with_memory(problem, judge_backward(problem.backward_args(), planes, jobs));
}

BackwardVerdict judge_backward(const BackwardArgs& args, const reference::Planes& planes,
                               unsigned jobs) {
  BackwardVerdict verdict;
  const auto exact = reference::backward(args, Arithmetic::kExact, planes, jobs);
  const auto rounded = reference::backward(args, Arithmetic::kRounded, planes, jobs);
  const auto judge_one = [&](std::string_view name, const Tensor& got,
                             const reference::Gradient& wanted,
                             const reference::Gradient& of_rounded) {
    const reference::Report report =
        reference::check_gradient(got, args.forward.q.dtype, wanted, of_rounded);
    verdict.add(report.pass ? "" : std::string(name) + ":\n" + report.text);
    return report;
  };
  const auto judge = [&](std::string_view name, const Tensor& got,
                         reference::Gradient reference::BackwardResult::*which) {
    return judge_one(name, got, exact.*which, rounded.*which);
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
  for (std::size_t n = 0; n < args.operand_gradients.size(); ++n) {
    const Tensor& got = args.operand_gradients[n];
    if (got.data == nullptr) continue;
    verdict.operands.push_back(
        judge_one(args.forward.operands[n].name, got, exact.operands[n], rounded.operands[n]));
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
  // The reference has gradients of operands where it has all planes.
  const bool join_all = !spec.grad.empty();
  const bool join_batches = join_all || spec.want_dsink || (spec.want_dbias && spec.bias[0] == '1');
  const bool join_heads = join_all || (spec.want_dbias && spec.bias[1] == '1');
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
