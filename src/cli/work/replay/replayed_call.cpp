#include "cli/work/replay/replayed_call.hpp"

#include <algorithm>

#include "cli/work/host_memory.hpp"
#include "cli/work/workload.hpp"

namespace attnjit::cli {
namespace {

constexpr const char* kDefaultArch = "sm_90a";  // as of attnjit run --on cpu

bool adds_up(const CallRun& run, const std::string& output) {
  return std::ranges::any_of(run.unordered, [&](const std::string& each) {
    return output == each || output.starts_with(each + ".");
  });
}

}  // namespace

CallKernels kernels_for(const dump::Origin& origin, const KernelChoice& choice) {
  CallKernels kernels;
  kernels.arch = !choice.arch.empty()   ? choice.arch
                 : !origin.arch.empty() ? origin.arch
                                        : kDefaultArch;
  if (choice.path) kernels.path = read_path(*choice.path);
  kernels.config = choice.config;
  if (!choice.config && !choice.path && !origin.config.empty()) kernels.config = origin.config;
  return kernels;
}

std::vector<std::string> ReplayedCall::broken_repeats() const {
  std::vector<std::string> names;
  for (const check::OutputDifference& difference : differences) {
    if (must_repeat && !adds_up(run, difference.name)) names.push_back(difference.name);
  }
  return names;
}

bool ReplayedCall::pass() const {
  const bool as_before = !recorded || recorded->pass;
  return run.violation.empty() && verdict.pass && as_before && broken_repeats().empty();
}

ReplayedCall replay_call(const dump::CallFile& file, CallRunner& runner, const KernelChoice& choice,
                         unsigned jobs) {
  const CallKernels kernels = kernels_for(file.origin(), choice);
  dump::HostCall host = file.load(memory_for(file));
  const std::optional<dump::Results> results = file.load_results();
  ReplayedCall replayed;
  replayed.run = runner.run(host, kernels);
  replayed.returned = results.has_value();
  if (replayed.run.violation.empty()) {
    replayed.verdict = check::judge_call(host, jobs);
    if (results) replayed.differences = check::differences(host, *results);
  }
  replayed.must_repeat =
      runner.repeats(file.origin()) && replayed.run.config == file.origin().config;
  if (results && (!replayed.differences.empty() || !replayed.run.violation.empty())) {
    for (std::size_t i = 0; i < results->size(); ++i) {
      if (!(*results)[i].empty()) host.fill(i, (*results)[i]);
    }
    replayed.recorded = check::judge_call(host, jobs);
  }
  return replayed;
}

std::uint64_t memory_for(const dump::CallFile& file) {
  constexpr double kCopies = 3;  // the call, the executor's state of each byte, the reference
  const std::uint64_t bytes = dump::host_bytes(file.call());
  check_host_memory(kCopies * static_cast<double>(bytes), "the tensors of the call",
                    "replay it on a machine with more");
  return bytes;
}

}  // namespace attnjit::cli
