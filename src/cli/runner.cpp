#include "cli/runner.hpp"

#include <charconv>

#include "cli/exit_code.hpp"
#include "cli/host_memory.hpp"

namespace attnjit::cli {
namespace {

constexpr double kReferenceBudget = 2e10;  // multiply-adds: seconds on a few cores

}  // namespace

reference::Rows choose_rows(const reference::ProblemSpec& spec, const std::string& rows) {
  if (rows.empty()) return check::affordable_rows(spec, kReferenceBudget);
  if (rows == "all") return reference::Rows::every();
  std::int64_t count = 0;
  const char* const last = rows.data() + rows.size();
  const auto [rest, error] = std::from_chars(rows.data(), last, count);
  if (error != std::errc{} || rest != last || count < 1) {
    usage_error("--rows: '{}'; expected all or a number from 1", rows);
  }
  return reference::Rows::sample(spec.seqlen_q, count, spec.seed);
}

void check_run_memory(const Case& job, const reference::Rows& rows, int copies) {
  const reference::ProblemSpec& spec = job.spec;
  // Both references' outputs, in fp64.
  const double results =
      2 * sizeof(double) * static_cast<double>(spec.batch) * static_cast<double>(spec.heads_q) *
      static_cast<double>(rows.count(spec.seqlen_q)) * static_cast<double>(spec.value_dim());
  check_host_memory(copies * tensor_bytes(spec) + results, "the tensors and their reference",
                    "choose a smaller batch, shorter sequences or fewer --rows");
}

}  // namespace attnjit::cli
