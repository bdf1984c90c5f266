#include "runtime/call/dispatcher.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "attnjit/error.hpp"
#include "cuda/device.hpp"
#include "cuda/memory.hpp"
#include "cuda/profiler_range.hpp"
#include "cuda/stream.hpp"
#include "runtime/call/address_checks.hpp"
#include "runtime/call/counters.hpp"
#include "runtime/load/plan_loader.hpp"

namespace attnjit::runtime {
namespace {

void check_workspace(const Workspace& workspace, std::size_t needed, const char* pass) {
  if (workspace.bytes < needed) {
    throw Error(ErrorKind::kInvalidProblem,
                fmt::format("workspace: {} bytes; expected at least {} ({}_workspace_size)",
                            workspace.bytes, needed, pass));
  }
  if (reinterpret_cast<std::uintptr_t>(workspace.data) % launch::kWorkspaceAlignment != 0) {
    throw Error(ErrorKind::kInvalidProblem,
                fmt::format("workspace: address {} is not aligned to {} bytes", workspace.data,
                            launch::kWorkspaceAlignment));
  }
}

// In the caller's workspace, or else in one for the length of the call.
template <class Pass>
void enqueue(const cuda::Driver& driver, const launch::Plan<Pass>& plan,
             const typename Pass::Problem& problem, const typename Pass::Args& args,
             const typename Pass::Layout& layout, Stream stream, const Workspace& workspace,
             const typename Pass::Kept& kept) {
  if (layout.bytes == 0) {
    plan.launch(driver, problem, args, layout, nullptr, stream, kept);
  } else if (workspace.data != nullptr) {
    check_workspace(workspace, layout.bytes, Pass::kName);
    plan.launch(driver, problem, args, layout, workspace.data, stream, kept);
  } else {
    const cuda::StreamBuffer own(driver, layout.bytes, stream);
    plan.launch(driver, problem, args, layout, own.data(), stream, kept);
  }
}

// Whether attention has nothing to compute, though maxima of heads may be -inf.
bool idle(const problem::Problem& problem) { return !problem.has_rows(); }
bool idle(const problem::BackwardProblem&) { return false; }

bool captures(const cuda::Driver& driver, Stream stream) {
  try {
    return cuda::is_capturing(driver, stream);
  } catch (const Error&) {
    return true;  // the legacy stream, while a stream that synchronises with it is captured
  }
}

}  // namespace

Dispatcher::Dispatcher(base::Environment environment, base::Log::Sink sink,
                       std::shared_ptr<const cuda::Driver> driver, Engine::Spaces spaces,
                       std::optional<codegen::Path> path)
    : named_(cuda::profiler_listens()),
      engine_(std::move(environment), std::move(sink), std::move(spaces), path),
      plan_maker_(engine_),
      dumper_(engine_),
      driver_(driver.get()) {
  loaded_->driver = std::move(driver);
}

void Dispatcher::forward(const ForwardArgs& args, Stream stream, const Workspace& workspace) {
  run(forward_plans_, forward_calls_, args, stream, workspace);
}
void Dispatcher::prepare_forward(const ForwardArgs& args) { prepare(forward_plans_, args); }
std::size_t Dispatcher::forward_workspace_size(const ForwardArgs& args) {
  return workspace_size(forward_plans_, args);
}

void Dispatcher::backward(const BackwardArgs& args, Stream stream, const Workspace& workspace) {
  run(backward_plans_, backward_calls_, args, stream, workspace);
}
void Dispatcher::prepare_backward(const BackwardArgs& args) { prepare(backward_plans_, args); }
std::size_t Dispatcher::backward_workspace_size(const BackwardArgs& args) {
  return workspace_size(backward_plans_, args);
}

void Dispatcher::merge_lse(const MergeLseArgs& args, Stream stream) {
  const problem::MergeProblem problem = problem::make_problem(args);
  if (!problem.empty()) run_untuned(merge_plans_, problem, args, stream);
}

std::size_t Dispatcher::prepared_mask_size(const PrepareMaskArgs& args) const {
  const problem::MaskProblem problem = problem::make_problem(args);
  if (problem.empty()) return 0;
  return static_cast<std::size_t>(launch::prepared_layout(problem).bytes);
}
PreparedMask Dispatcher::prepare_mask(const PrepareMaskArgs& args, Stream stream) {
  const problem::MaskProblem problem = problem::make_problem(args);
  const PreparedMask result = problem::result_of(problem, args);
  if (!problem.empty()) run_untuned(mask_plans_, problem, args, stream);
  return result;
}

template <class Pass>
void Dispatcher::run_untuned(BasicPlanTable<Pass>& plans, const typename Pass::Problem& problem,
                             const typename Pass::Args& args, Stream stream) {
  const base::Log::Delivery delivery(engine_.log());
  const typename BasicPlanTable<Pass>::Key key{cuda::current_context_id(driver()), problem.key};
  const launch::Plan<Pass>* plan = plans.find(key);
  if (plan == nullptr) {
    check_addresses(own_driver(), args);
    plan = &plans.find_or_make(key, [&] {
      return load_plan<Pass>(engine_, driver(), Pass::spec(problem.key, engine_.templates()),
                             arch_of(cuda::current_device(driver())), problem);
    });
  }
  plan->launch(driver(), problem, args, {}, nullptr, stream);
}

// A call of a shape that was seen before starts from what was worked out then. That a driver or a
// current context is missing is said only of calls that are valid and have something to do.
template <class Pass>
void Dispatcher::run(BasicPlanTable<Pass>& plans, CallTable<Pass>& calls,
                     const typename Pass::Args& args, Stream stream, const Workspace& workspace) {
  const base::Log::Delivery delivery(engine_.log());
  const cuda::Driver* const loaded = driver_.load(std::memory_order_acquire);
  std::optional<unsigned long long> context_id;
  if (loaded != nullptr) context_id = cuda::find_current_context_id(*loaded);
  if (context_id) {
    if (const auto* const call = calls.find(*context_id, args)) {
      return launch(*call->plan, call->problem, args, call->layout, stream, workspace, call->kept);
    }
  }
  const typename Pass::Problem problem = problem::make_problem(args);
  if (problem.empty()) return;
  const launch::Plan<Pass>& plan = find_plan(plans, problem, args, {stream});
  const typename Pass::Layout layout = launch::workspace_layout(plan.spec(), problem);
  launch(plan, problem, args, layout, stream, workspace, {});
  if (!context_id || !calls.has_place(*context_id, args)) return;
  // A provisional plan is not there: another is to come.
  if (plans.find({*context_id, problem::plan_key(problem)}) != &plan) return;
  calls.keep({*context_id, args, problem, &plan, layout, plan.keep(*loaded, problem, args), {}});
}

// Enqueues the call, in a range of its problem's name while a profiler listens, and keeps it where
// that is asked for.
template <class Pass>
void Dispatcher::launch(const launch::Plan<Pass>& plan, const typename Pass::Problem& problem,
                        const typename Pass::Args& args, const typename Pass::Layout& layout,
                        Stream stream, const Workspace& workspace,
                        const typename Pass::Kept& kept) {
  std::optional<cuda::ProfilerRange> range;
  if (named_) range.emplace(problem::describe(problem));
  const cuda::Driver& loaded = driver();
  if (!dumper_.active()) {
    return enqueue(loaded, plan, problem, args, layout, stream, workspace, kept);
  }
  dumper_.run(loaded, plan, problem, args, stream, captures(loaded, stream),
              [&] { enqueue(loaded, plan, problem, args, layout, stream, workspace, kept); });
}

template <class Pass>
void Dispatcher::prepare(BasicPlanTable<Pass>& plans, const typename Pass::Args& args) {
  const base::Log::Delivery delivery(engine_.log());
  const typename Pass::Problem problem = problem::make_problem(args);
  if (problem.empty()) return;
  check_addresses(own_driver(), args);
  find_plan(plans, problem, args, {CU_STREAM_LEGACY, CU_STREAM_PER_THREAD});
}

template <class Pass>
std::size_t Dispatcher::workspace_size(BasicPlanTable<Pass>& plans,
                                       const typename Pass::Args& args) {
  const base::Log::Delivery delivery(engine_.log());
  const typename Pass::Problem problem = problem::make_problem(args);
  if (problem.empty()) return 0;
  const typename Pass::Key key = problem::plan_key(problem);
  const launch::Plan<Pass>* plan = plans.find({cuda::current_context_id(driver()), key});
  // The call that follows may tune, and a capture may come before it: what suffices for both.
  if (plan == nullptr && plan_maker_.would_tune(own_driver(), key)) {
    return plan_maker_.most_workspace_bytes<Pass>(driver(), problem, key);
  }
  if (plan == nullptr) plan = &find_plan(plans, problem, args, {});
  return launch::workspace_layout(plan->spec(), problem).bytes;
}

Counters Dispatcher::counters() const {
  const PlanMaker::Counters plans = plan_maker_.counters();
  Counters result = runtime::counters(engine_);
  result.plans = plans.plans;
  result.tunes = plans.tunes;
  result.timing_launches = plans.timing_launches;
  result.record_hits = plans.record_hits;
  return result;
}

std::optional<cuda::DeviceInfo> Dispatcher::find_device() {
  try {
    return cuda::current_device(driver());
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kNoDevice) throw;
    return std::nullopt;
  }
}

const cuda::Driver& Dispatcher::driver() {
  const cuda::Driver* const loaded = driver_.load(std::memory_order_acquire);
  return loaded != nullptr ? *loaded : load_driver();
}

// The driver where something is to be made. In a child of fork() the tables of plans may be locked
// by threads that are not there; a launch takes no lock, and the real driver refuses it.
const cuda::Driver& Dispatcher::own_driver() {
  driver().expect_own_process();
  return driver();
}

const cuda::Driver& Dispatcher::load_driver() {
  Loaded& loaded = *loaded_;
  const std::lock_guard lock(loaded.mutex);
  if (loaded.driver == nullptr) loaded.driver = cuda::Driver::load();
  driver_.store(loaded.driver.get(), std::memory_order_release);
  return *loaded.driver;
}

// The plan of `problem` in the current context, made on first sight. Only then is the driver asked
// about the addresses in `args`, a query for each. While one of `streams` is captured, or for a
// problem without rows, nothing is tuned: a plan that would be is provisional, and the next call
// that may tune makes another.
template <class Pass>
const launch::Plan<Pass>& Dispatcher::find_plan(BasicPlanTable<Pass>& plans,
                                                const typename Pass::Problem& problem,
                                                const typename Pass::Args& args,
                                                std::initializer_list<Stream> streams) {
  const typename BasicPlanTable<Pass>::Key key{cuda::current_context_id(driver()),
                                               problem::plan_key(problem)};
  if (const launch::Plan<Pass>* const plan = plans.find(key)) return *plan;
  check_addresses(own_driver(), args);
  const auto capturing = [&](Stream stream) { return captures(driver(), stream); };
  if (plan_maker_.would_tune(driver(), key.plan) &&
      (idle(problem) || std::ranges::any_of(streams, capturing))) {
    return plans.find_or_make_provisional(
        key, [&] { return plan_maker_.make(driver(), problem, key.plan, Tuning::kForbidden); });
  }
  return plans.find_or_make(
      key, [&] { return plan_maker_.make(driver(), problem, key.plan, Tuning::kAllowed); });
}

}  // namespace attnjit::runtime
