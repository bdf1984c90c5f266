#include "cli/device_run.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "check/device_mirror.hpp"
#include "cli/exit_code.hpp"
#include "cli/host_memory.hpp"
#include "cuda/stream.hpp"

namespace attnjit::cli {
namespace {

constexpr double kReferenceBudget = 2e10;  // multiply-adds: seconds on a few cores

// Tensors, and both references' outputs in fp64.
void check_memory(const Case& job, const reference::Rows& rows) {
  const reference::ProblemSpec& spec = job.spec;
  const double results =
      2 * sizeof(double) * static_cast<double>(spec.batch) * static_cast<double>(spec.heads_q) *
      static_cast<double>(rows.count(spec.seqlen_q)) * static_cast<double>(spec.value_dim());
  check_host_memory(tensor_bytes(spec) + results, "the tensors and their reference",
                    "choose a smaller batch, shorter sequences or fewer --rows");
}

float median_launch(const ForwardArgs& args, const cuda::Driver& driver, Context& context,
                    const cuda::Stream& stream) {
  const cuda::Event begin(driver);
  const cuda::Event end(driver);
  std::array<float, 5> times;
  for (float& time : times) {
    begin.record(stream.get());
    context.forward(args, stream.get());
    end.record(stream.get());
    end.synchronize();
    time = end.elapsed_ms(begin);
  }
  std::ranges::sort(times);
  return times[times.size() / 2];
}

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

DeviceRun run_on_device(const Case& job, const reference::Rows& rows, const cuda::Driver& driver,
                        Context& context, unsigned jobs) {
  make_problem(job.spec);  // before memory is filled for a problem that cannot run
  check_memory(job, rows);
  reference::HostProblem host(job.spec, jobs);
  DeviceRun result;
  {
    const cuda::Stream stream(driver);
    check::DeviceMirror mirror(driver, host);
    context.forward(mirror.args(), stream.get());
    stream.synchronize();
    mirror.download(host);
    result.milliseconds = median_launch(mirror.args(), driver, context, stream);
  }
  result.rows = rows.count(job.spec.seqlen_q);
  result.verdict = check::judge_forward(host, rows, jobs);
  return result;
}

}  // namespace attnjit::cli
