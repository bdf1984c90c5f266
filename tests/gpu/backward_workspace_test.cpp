// Addresses and workspaces of backwards.
#include <cstring>

#include "backward_problems.hpp"

namespace attnjit {
namespace {

using gpu_test::expect_right;
using gpu_test::full_problem;
using gpu_test::full_problems_both_ways;
using instance::HostProblem;
using instance::ProblemSpec;

std::string message_of(gpu_test::Gpu& gpu, const BackwardArgs& args, Workspace workspace = {}) {
  return gpu_test::refusal([&] { gpu.context.backward(args, nullptr, workspace); });
}

TEST_CASE("backward: a host address is refused before anything runs") {
  ATTNJIT_NEED_GPU(gpu);
  HostProblem problem(full_problem(), 4);
  check::DeviceMirror mirror(*gpu.driver, problem);
  BackwardArgs args = mirror.backward_args();
  args.dk.data = problem.backward_args().dk.data;
  const std::string message = message_of(gpu, args);
  CHECK(message.find("dk: ") == 0);
  CHECK(message.find("device memory") != std::string::npos);
}

TEST_CASE("backward: a workspace that is too small or misaligned is refused") {
  ATTNJIT_NEED_GPU(gpu);
  HostProblem problem(full_problem(), 4);
  check::DeviceMirror mirror(*gpu.driver, problem);
  const BackwardArgs args = mirror.backward_args();
  const std::size_t bytes = gpu.context.backward_workspace_size(args);
  const cuda::DeviceBuffer workspace(*gpu.driver, bytes + 1);
  auto* base = static_cast<std::byte*>(workspace.data());
  CHECK(message_of(gpu, args, {base, bytes - 1}).find("workspace") == 0);
  CHECK(message_of(gpu, args, {base + 1, bytes}).find("workspace") == 0);
  CHECK(message_of(gpu, args, {base, bytes}).empty());
}

// Guards around the workspace: kernels write nothing outside of what they asked for.
TEST_CASE("backward: nothing outside of the workspace is written") {
  ATTNJIT_NEED_GPU(gpu);
  for (const ProblemSpec& spec : full_problems_both_ways()) {
    CAPTURE(instance::describe(spec));
    HostProblem problem(spec, 4);
    problem.poison_outputs();
    check::DeviceMirror mirror(*gpu.driver, problem);
    const BackwardArgs args = mirror.backward_args();
    const std::size_t bytes = gpu.context.backward_workspace_size(args);
    constexpr std::size_t kGuard = 4096;
    const std::vector<std::byte> pattern(bytes + 2 * kGuard, std::byte{0x5a});
    const cuda::DeviceBuffer memory(*gpu.driver, pattern.size());
    cuda::copy_to_device(*gpu.driver, memory.data(), pattern.data(), pattern.size());
    auto* const base = static_cast<std::byte*>(memory.data()) + kGuard;
    const cuda::Stream stream(*gpu.driver);
    gpu.context.backward(args, stream.get(), {base, bytes});
    stream.synchronize();
    std::vector<std::byte> after(pattern.size());
    cuda::copy_to_host(*gpu.driver, after.data(), memory.data(), after.size());
    CHECK(std::memcmp(after.data(), pattern.data(), kGuard) == 0);
    CHECK(std::memcmp(after.data() + kGuard + bytes, pattern.data(), kGuard) == 0);
    expect_right(problem, mirror);
  }
}

}  // namespace
}  // namespace attnjit
