#include "cli/work/replay/shrink.hpp"

#include "check/call_shrink.hpp"
#include "cli/report/exit_code.hpp"
#include "dump/folder.hpp"
#include "dump/writer.hpp"

namespace attnjit::cli {
namespace {

constexpr int kMostTries = 200;

std::filesystem::path write_call(const std::string& folder, const dump::Origin& origin,
                                 const dump::Call& call) {
  const std::filesystem::path path = std::filesystem::absolute(folder);
  if (const auto why = dump::why_no_folder(path)) {
    usage_error("--output: {} gets no calls: {}", folder, *why);
  }
  dump::CallWriter writer(path, dump::call_name(origin.number), call, dump::fetch_from_host);
  const base::WriteResult result = writer.write_call(origin);
  if (!result.ok()) usage_error("--output: {} ({})", folder, result.message());
  return writer.call_file();
}

template <class Args>
void describe_smallest(const Args& args, SmallestCall& smallest) {
  const auto problem = problem::make_problem(args);
  smallest.problem = problem::describe(problem);
  smallest.manifest_line = problem::manifest_line(problem);
}

}  // namespace

SmallestCall find_smallest(const dump::CallFile& file, CallRunner& runner,
                           const KernelChoice& choice, const std::string& output, unsigned jobs) {
  const CallKernels kernels = kernels_for(file.origin(), choice);
  const auto fails = [&](dump::HostCall& call) {
    try {
      const CallRun run = runner.run(call, kernels);
      return !run.violation.empty() || !check::judge_call(call, jobs).pass;
    } catch (const Error&) {
      return false;  // no legal call, or none for these kernels
    }
  };
  check::ShrunkCall shrunk =
      check::shrink_call(file.load(memory_for(file)), fails, kMostTries, jobs);
  SmallestCall smallest;
  smallest.tried = shrunk.tried;
  const dump::Call& call = shrunk.call.call();
  if (call.backward()) {
    describe_smallest(call.backward_args(), smallest);
  } else {
    describe_smallest(call.forward_args(), smallest);
  }
  if (output.empty()) return smallest;
  dump::Origin origin = file.origin();
  origin.problem = smallest.problem;
  origin.manifest_line = smallest.manifest_line;
  smallest.file = write_call(output, origin, call);
  return smallest;
}

}  // namespace attnjit::cli
