#include "attnjit/context.hpp"

#include <fmt/format.h>

#include <atomic>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "attnjit/error.hpp"
#include "cuda/device.hpp"
#include "cuda/memory.hpp"
#include "launch/forward_plan.hpp"
#include "runtime/engine.hpp"

namespace attnjit {
namespace {

base::Environment environment_with(const ContextOptions& options) {
  base::Environment environment = base::process_environment();
  if (options.cache_directory) {
    environment.cache_directory.reset();
    if (*options.cache_directory != "0") {
      environment.cache_directory = std::filesystem::absolute(*options.cache_directory);
    }
  }
  if (options.nvrtc_path) environment.nvrtc_path = *options.nvrtc_path;
  return environment;
}

base::Log::Sink sink_of(const ContextOptions& options) {
  if (!options.log) return {};
  return [log = options.log](base::LogLevel, std::string_view message) { log(message); };
}

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

}  // namespace

class Context::State {
 public:
  explicit State(const ContextOptions& options)
      : engine_(environment_with(options), sink_of(options)) {}

  void forward(const ForwardArgs& args, Stream stream, const Workspace& workspace) {
    const problem::Problem problem = problem::make_problem(args);
    if (problem.empty()) return;
    const launch::ForwardPlan& plan = find_plan(problem);
    check_addresses(args);
    const launch::WorkspaceLayout layout = launch::workspace_layout(plan.spec(), problem);
    if (layout.bytes == 0) {
      plan.launch(driver(), problem, args, layout, nullptr, stream);
    } else if (workspace.data != nullptr) {
      check_workspace(workspace, layout.bytes);
      plan.launch(driver(), problem, args, layout, workspace.data, stream);
    } else {
      const cuda::StreamBuffer own(driver(), layout.bytes, stream);
      plan.launch(driver(), problem, args, layout, own.data(), stream);
    }
  }

  void prepare(const ForwardArgs& args) {
    const problem::Problem problem = problem::make_problem(args);
    if (!problem.empty()) find_plan(problem);
  }

  std::size_t workspace_size(const ForwardArgs& args) {
    const problem::Problem problem = problem::make_problem(args);
    if (problem.empty()) return 0;
    return launch::workspace_layout(find_plan(problem).spec(), problem).bytes;
  }

  Counters counters() {
    const cache::Counters cache = engine_.cache().counters();
    return {plans_made_, cache.builds, cache.disk_hits, cache.corrupt, cache.write_failures};
  }

 private:
  // Plans belong to the CUDA context that they were loaded into.
  using Key = std::pair<unsigned long long, problem::PlanKey>;

  const cuda::Driver& driver() {
    std::call_once(driver_once_, [this] { driver_ = cuda::Driver::load(); });
    return *driver_;
  }

  // The plan of `problem` in the current context, made on first sight. Plans are never dropped, so
  // the reference stays good.
  const launch::ForwardPlan& find_plan(const problem::Problem& problem) {
    const Key key{cuda::current_context_id(driver()), problem::plan_key(problem)};
    {
      const std::shared_lock lock(plans_mutex_);
      if (const auto found = plans_.find(key); found != plans_.end()) return *found->second;
    }
    auto plan = make_plan(problem);  // without the lock: it may compile
    const std::unique_lock lock(plans_mutex_);
    return *plans_.emplace(key, std::move(plan)).first->second;
  }

  std::unique_ptr<launch::ForwardPlan> make_plan(const problem::Problem& problem) {
    const cuda::DeviceInfo device = cuda::current_device(driver());
    codegen::Arch arch = codegen::find_arch(device.arch());
    arch.sm_count = device.sm_count;
    launch::ForwardPlanSpec spec = engine_.plan_forward(problem, arch);
    std::vector<std::unique_ptr<cuda::Library>> libraries;
    for (const launch::StepSpec& step : spec.steps) {
      const auto entry = engine_.kernel(step.source, arch, problem::describe(problem));
      libraries.push_back(std::make_unique<cuda::Library>(driver(), entry->cubin));
    }
    ++plans_made_;
    return std::make_unique<launch::ForwardPlan>(std::move(spec), std::move(libraries));
  }

  void check_addresses(const ForwardArgs& args) {
    check_address("q", args.q.data);
    check_address("k", args.k.data);
    check_address("v", args.v.data);
    check_address("out", args.out.data);
    check_address("lse", args.lse);
    check_address("seqlens_q", args.seqlens_q);
    check_address("seqlens_kv", args.seqlens_kv);
    if (args.mask) check_address("mask", args.mask->data);
    if (args.bias) check_address("bias", args.bias->data);
  }
  void check_address(const char* what, const void* address) {
    if (address == nullptr || cuda::is_device_pointer(driver(), address)) return;
    throw Error(ErrorKind::kInvalidProblem,
                fmt::format("{}: address {} is not device memory of the current context; copy the "
                            "tensor to the device first",
                            what, address));
  }

  runtime::Engine engine_;
  std::once_flag driver_once_;
  std::shared_ptr<const cuda::Driver> driver_;
  std::atomic<std::uint64_t> plans_made_ = 0;
  std::shared_mutex plans_mutex_;
  std::map<Key, std::unique_ptr<launch::ForwardPlan>> plans_;
};

Context::Context() : Context(ContextOptions{}) {}
Context::Context(const ContextOptions& options) : state_(std::make_unique<State>(options)) {}
Context::~Context() = default;

void Context::forward(const ForwardArgs& args, Stream stream, Workspace workspace) {
  state_->forward(args, stream, workspace);
}
void Context::prepare_forward(const ForwardArgs& args) { state_->prepare(args); }
std::size_t Context::forward_workspace_size(const ForwardArgs& args) {
  return state_->workspace_size(args);
}
Counters Context::counters() const { return state_->counters(); }

}  // namespace attnjit
