#include "cli/work/cpu_run.hpp"

#include "cli/report/exit_code.hpp"
#include "cli/work/executor_options.hpp"

#ifdef ATTNJIT_HAS_EXECUTOR
#include <chrono>

#include "cli/work/planning.hpp"
#include "executor/prepared_call.hpp"
#include "executor/violation.hpp"
#include "reference/block_table.hpp"
#include "reference/key_counts.hpp"
#include "reference/paged.hpp"

namespace attnjit::cli {
namespace {

constexpr double kLongRun = 2e10;  // multiply-adds: half a minute or more

// It has everything that any architecture has: the combine step overlaps the forward there.
constexpr const char* kDefaultArch = "sm_90a";

const codegen::Arch& choose_arch(const std::vector<std::string>& names) {
  if (names.size() > 1) {
    usage_error("--arch: {} architectures; expected the one whose kernels to run", names.size());
  }
  return codegen::find_arch(names.empty() ? kDefaultArch : names.front());
}

double multiply_adds(const instance::ProblemSpec& spec) {
  const double products = spec.backward ? 2.5 : 1;  // of a forward's
  return products * static_cast<double>(spec.tensor_batch()) * static_cast<double>(spec.heads_q) *
         static_cast<double>(spec.seqlen_q) * static_cast<double>(spec.seqlen_kv) *
         static_cast<double>(spec.head_dim + spec.value_dim());
}

class CpuRunner final : public Runner {
 public:
  CpuRunner(const WorkloadOptions& options, Session& session)
      : session_(session),
        arch_(choose_arch(options.archs)),
        planner_(session.engine(), read_config(options.config), session.device_classes(),
                 read_path(options.path)),
        executor_(executor_options(session), session.engine().log()) {}

  std::string device() const override {
    return fmt::format("CPU executor (kernels of {})", arch_.name);
  }

  RunResult run(const Case& job, const Sample& sample) override {
    check_run_memory(job, sample, 2);  // the executor keeps a byte for each byte of a tensor
    if (multiply_adds(job.spec) > kLongRun) {
      session_.console().note(
          "{}: {:.1g} multiply-adds take the CPU a while: about 5e8 a second on two cores",
          job.name, multiply_adds(job.spec));
    }
    const unsigned jobs = session_.environment().jobs;
    instance::HostProblem host(job.spec, jobs);
    note_faulty_lists(job.name, host);
    note_outside_reads(job.name, host, session_.console());
    host.poison_outputs();
    RunResult result;
    const auto start = std::chrono::steady_clock::now();
    try {
      execute(host);
    } catch (const executor::Violation& violation) {
      result.judged = false;
      result.findings.add(violation.what());
    }
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    result.seconds = time.count();
    if (result.judged) judge(host, sample, jobs, result);
    return result;
  }

  std::string counters() const override {
    const cache::Counters counters = executor_.counters();
    return fmt::format("{} kernels compiled for the CPU, {} read from the cache", counters.builds,
                       counters.disk_hits);
  }

 private:
  // Tells of entries that the contract leaves out, for they are a mistake of the caller's.
  void note_faulty_lists(const std::string& name, const instance::HostProblem& host) {
    const ForwardArgs args = host.args();
    if (args.key_indices) note_faulty_indices(name, args);
    if (!args.blocks) return;
    const auto faulty = reference::faulty_entries(*args.blocks, reference::num_keys(args));
    if (faulty.indices == 0 && faulty.counts == 0) return;
    session_.console().note(
        "{}: blocks: {} indices name no block and {} counts are no number of entries; they are "
        "left out and clamped",
        name, faulty.indices, faulty.counts);
  }

  void note_faulty_indices(const std::string& name, const ForwardArgs& args) {
    const std::int64_t faulty = reference::faulty_key_indices(args);
    if (faulty == 0) return;
    session_.console().note(
        "{}: key_indices: {} are neither -1 nor a key from 0 to {}; they select none", name, faulty,
        args.k.shape[2] - 1);
  }

  void execute(const instance::HostProblem& host) {
    const instance::ProblemSpec& spec = host.spec();
    executor::PreparedCall prepared(executor_, session_.engine().templates());
    if (spec.backward) {
      BackwardArgs args = host.backward_args();
      if (spec.prepare_mask) prepared.prepare(args.forward, true);
      const auto problem = make_backward_problem(spec);
      executor_.backward(planner_.backward(problem, arch_), problem, args);
    } else {
      ForwardArgs args = host.args();
      if (spec.prepare_mask) prepared.prepare(args, false);
      const auto problem = make_problem(spec);
      executor_.forward(planner_.forward(problem, arch_), problem, args);
    }
  }

  Session& session_;
  const codegen::Arch& arch_;
  Planner planner_;
  executor::Executor executor_;
};

}  // namespace

std::unique_ptr<Runner> make_cpu_runner(const WorkloadOptions& options, Session& session) {
  return std::make_unique<CpuRunner>(options, session);
}

std::string host_compiler_id(const base::Environment& environment) {
  return executor::HostCompiler(environment.host_compiler).id();
}

}  // namespace attnjit::cli

#else

namespace attnjit::cli {
std::unique_ptr<Runner> make_cpu_runner(const WorkloadOptions&, Session&) { refuse_executor(); }

std::string host_compiler_id(const base::Environment&) { refuse_executor(); }

}  // namespace attnjit::cli

#endif
