#include "runtime/dispatcher.hpp"

#include <fmt/format.h>

#include "attnjit/error.hpp"
#include "cuda/device.hpp"
#include "cuda/memory.hpp"

namespace attnjit::runtime {
namespace {

void check_workspace(const Workspace& workspace, std::size_t needed) {
  if (workspace.bytes < needed) {
    throw Error(ErrorKind::kInvalidProblem,
                fmt::format("workspace: {} bytes; expected at least {} (forward_workspace_size)",
                            workspace.bytes, needed));
  }
  if (reinterpret_cast<std::uintptr_t>(workspace.data) % launch::kWorkspaceAlignment != 0) {
    throw Error(ErrorKind::kInvalidProblem,
                fmt::format("workspace: address {} is not aligned to {} bytes", workspace.data,
                            launch::kWorkspaceAlignment));
  }
}

void check_address(const cuda::Driver& driver, const char* what, const void* address) {
  if (address == nullptr || cuda::is_device_pointer(driver, address)) return;
  throw Error(ErrorKind::kInvalidProblem,
              fmt::format("{}: address {} is not device memory of the current context; copy the "
                          "tensor to the device first",
                          what, address));
}

}  // namespace

Dispatcher::Dispatcher(base::Environment environment, base::Log::Sink sink,
                       std::shared_ptr<const cuda::Driver> driver)
    : engine_(std::move(environment), std::move(sink)),
      plan_maker_(engine_),
      driver_(std::move(driver)) {}

void Dispatcher::forward(const ForwardArgs& args, Stream stream, const Workspace& workspace) {
  const problem::Problem problem = problem::make_problem(args);
  if (problem.empty()) return;
  const launch::ForwardPlan& plan = find_plan(problem, stream);
  check_addresses(args);
  const std::size_t bytes = launch::workspace_layout(plan.spec(), problem).bytes;
  if (bytes == 0) {
    plan.launch(driver(), problem, args, nullptr, stream);
  } else if (workspace.data != nullptr) {
    check_workspace(workspace, bytes);
    plan.launch(driver(), problem, args, workspace.data, stream);
  } else {
    const cuda::StreamBuffer own(driver(), bytes, stream);
    plan.launch(driver(), problem, args, own.data(), stream);
  }
}

void Dispatcher::prepare_forward(const ForwardArgs& args) {
  const problem::Problem problem = problem::make_problem(args);
  if (!problem.empty()) find_plan(problem);
}

std::size_t Dispatcher::forward_workspace_size(const ForwardArgs& args) {
  const problem::Problem problem = problem::make_problem(args);
  if (problem.empty()) return 0;
  return launch::workspace_layout(find_plan(problem).spec(), problem).bytes;
}

Counters Dispatcher::counters() const {
  const cache::Counters cache = engine_.cache().counters();
  const PlanMaker::Counters plans = plan_maker_.counters();
  return {plans.plans,          cache.builds, cache.disk_hits,       cache.corrupt,
          cache.write_failures, plans.tunes,  plans.timing_launches, plans.record_hits};
}

const cuda::Driver& Dispatcher::driver() {
  std::call_once(driver_once_, [this] {
    if (driver_ == nullptr) driver_ = cuda::Driver::load();
  });
  return *driver_;
}

// The plan of `problem` in the current context, made on first sight. Plans are never dropped, so
// the reference stays good. `stream`: of the call, if it has one.
const launch::ForwardPlan& Dispatcher::find_plan(const problem::Problem& problem,
                                                 std::optional<Stream> stream) {
  const Key key{cuda::current_context_id(driver()), problem::plan_key(problem)};
  {
    const std::shared_lock lock(plans_mutex_);
    if (const auto found = plans_.find(key); found != plans_.end()) return *found->second;
  }
  const bool timed = !stream || may_time(driver(), *stream);
  auto plan = plan_maker_.make(driver(), problem, timed);  // without the lock: it may compile
  const std::unique_lock lock(plans_mutex_);
  return *plans_.emplace(key, std::move(plan)).first->second;
}

void Dispatcher::check_addresses(const ForwardArgs& args) {
  check_address(driver(), "q", args.q.data);
  check_address(driver(), "k", args.k.data);
  check_address(driver(), "v", args.v.data);
  check_address(driver(), "out", args.out.data);
  check_address(driver(), "lse", args.lse);
  check_address(driver(), "seqlens_q", args.seqlens_q);
  check_address(driver(), "seqlens_kv", args.seqlens_kv);
  if (args.mask) check_address(driver(), "mask", args.mask->data);
  if (args.bias) check_address(driver(), "bias", args.bias->data);
}

}  // namespace attnjit::runtime
