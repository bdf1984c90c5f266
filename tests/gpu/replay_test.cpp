// Calls that a device made and kept, run again on it.
#include "base/json.hpp"
#include "base/parallel.hpp"
#include "cli/command_line.hpp"
#include "dump/folder.hpp"
#include "gpu.hpp"
#include "random_problem.hpp"
#include "runtime/call/dispatcher.hpp"

namespace attnjit::gpu_replay_test {
namespace {

constexpr std::size_t kCalls = 200;

// Makes random calls of both passes and keeps them in `folder`, and their kernels in `cache`. Tail
// masks, packed sequences, pages, prepared masks and bands come with their numbers.
void make_calls(gpu_test::Gpu& gpu, const std::filesystem::path& folder,
                const std::filesystem::path& cache) {
  base::Environment environment = base::process_environment();
  environment.call_dumps = base::CallDumps{folder, kCalls};
  environment.cache_directory = cache;
  runtime::Dispatcher dispatcher(environment);
  // Compiling takes most of the time.
  base::parallel_for(kCalls, gpu_test::all_cores(), [&](std::size_t index) {
    const cuda::PrimaryContext current(*gpu.driver);
    const bool backward = index % 2 == 1;
    instance::ProblemSpec spec =
        backward ? test::small_backward_problem(index) : test::small_problem(index);
    spec.deterministic = index % 4 == 1;
    instance::HostProblem problem(spec, 1);
    gpu_test::run_on_mirror(*gpu.driver, problem,
                            [&](check::DeviceMirror& mirror, CUstream stream) {
                              mirror.prepare_mask(dispatcher, stream);
                              if (backward)
                                return dispatcher.backward(mirror.backward_args(), stream);
                              dispatcher.forward(mirror.args(), stream);
                            });
  });
}

// The outputs of `result` that have other bits than were recorded.
std::vector<std::string> differing(const base::Json& result) {
  std::vector<std::string> names;
  for (const auto& item : result.at("bits_differ").items()) names.push_back(item.key());
  return names;
}

TEST_CASE("replay: random calls give the same bits on the device that made them") {
  ATTNJIT_NEED_GPU(gpu);
  const test::CommandLine attnjit;
  const std::filesystem::path folder = attnjit.file("calls");
  make_calls(gpu, folder, attnjit.cache());
  // Calls without rows are not made.
  const std::size_t kept = dump::list_calls(folder).size();
  CHECK(kept > kCalls * 9 / 10);
  const test::Outcome outcome = attnjit({"replay", folder.string(), "--on", "gpu", "--json"},
                                        {{"CUDA_VISIBLE_DEVICES", "0"}});
  INFO(outcome.err);
  CHECK(outcome.code == 0);
  const base::Json report = outcome.json();
  CHECK(report.at("results").size() == kept);
  std::size_t same = 0;
  for (const base::Json& result : report.at("results")) {
    INFO(result.dump());
    CHECK(result.at("pass") == true);
    const std::vector<std::string> names = differing(result);
    same += names.empty() ? 1 : 0;
    // Atomics alone add up in any order.
    const std::string problem = result.at("problem");
    const bool may_differ =
        problem.find("backward") != problem.npos && problem.find("deterministic") == problem.npos;
    CHECK((names.empty() || may_differ));
  }
  MESSAGE(same, " of ", kept, " calls have the same bits");
  CHECK(same >= kept * 3 / 4);
}

}  // namespace
}  // namespace attnjit::gpu_replay_test
