#include "cli/work/runner.hpp"

#include <charconv>

#include "cli/report/exit_code.hpp"
#include "cli/work/host_memory.hpp"
#include "reference/outside_reads.hpp"

namespace attnjit::cli {
namespace {

constexpr double kReferenceBudget = 2e10;     // multiply-adds: seconds on a few cores
constexpr std::int64_t kMostPairs = 1 << 16;  // whose reads are looked at: a fraction of a second

}  // namespace

Sample choose_sample(const instance::ProblemSpec& spec, const std::string& rows) {
  if (rows == "all") return {};
  if (spec.backward) {
    if (rows.empty()) return {.planes = check::affordable_planes(spec, kReferenceBudget)};
    usage_error("--rows: '{}'; a backward is judged by heads: expected all, or leave it out", rows);
  }
  if (rows.empty()) return {.rows = check::affordable_rows(spec, kReferenceBudget)};
  std::int64_t count = 0;
  const char* const last = rows.data() + rows.size();
  const auto [rest, error] = std::from_chars(rows.data(), last, count);
  if (error != std::errc{} || rest != last || count < 1) {
    usage_error("--rows: '{}'; expected all or a number from 1", rows);
  }
  return {.rows = reference::Rows::sample(spec.seqlen_q, count, spec.seed)};
}

void check_run_memory(const Case& job, const Sample& sample, int copies) {
  const instance::ProblemSpec& spec = job.spec;
  // Both references' results in fp64: out at the sample's rows, or the gradients whole.
  const double elements =
      spec.backward ? tensor_bytes(spec) / 2
                    : static_cast<double>(spec.tensor_batch()) * static_cast<double>(spec.heads_q) *
                          static_cast<double>(sample.rows.count(spec.seqlen_q)) *
                          static_cast<double>(spec.value_dim());
  check_host_memory(copies * tensor_bytes(spec) + 2 * sizeof(double) * elements,
                    "the tensors and their reference",
                    "choose a smaller batch, shorter sequences or fewer --rows");
}

void note_outside_reads(const std::string& name, const instance::HostProblem& host,
                        Console& console) {
  const auto reads = reference::outside_reads(host.args(), kMostPairs);
  if (!reads.first) return;
  const auto& [pair, operand, axis, index, size] = *reads.first;
  console.note(
      "{}: operand {}: index {} of axis {}, of size {}, at b {}, h {}, i {}, j {} reads the "
      "element at the nearest "
      "end; {} of {} pairs looked at have such a read",
      name, operand, index, axis, size, pair.batch, pair.head, pair.query, pair.key, reads.outside,
      reads.pairs);
}

void judge(const instance::HostProblem& host, const Sample& sample, unsigned jobs,
           RunResult& result) {
  if (!host.spec().backward) {
    const check::Verdict verdict = check::judge_forward(host, sample.rows, jobs);
    result.findings = verdict;
    result.outputs = {{"out", verdict.out}, {"lse", verdict.lse}};
    if (host.spec().want_row_max) result.outputs.push_back({"row_max", verdict.row_max});
    if (host.spec().want_max_logits) result.outputs.push_back({"max_logits", verdict.max_logits});
    return;
  }
  const check::BackwardVerdict verdict = check::judge_backward(host, sample.planes, jobs);
  result.findings = verdict;
  result.outputs = {{"dq", verdict.dq}, {"dk", verdict.dk}, {"dv", verdict.dv}};
  if (host.spec().want_dsink) result.outputs.push_back({"dsink", verdict.dsink});
  if (host.spec().want_dbias) result.outputs.push_back({"dbias", verdict.dbias});
  std::size_t next = 0;
  for (const instance::OperandSpec& operand : host.spec().operands) {
    if (!instance::wants_gradient(host.spec(), operand)) continue;
    result.outputs.push_back({"grad " + operand.name, verdict.operands[next++]});
  }
}

}  // namespace attnjit::cli
