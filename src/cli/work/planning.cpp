#include "cli/work/planning.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/fields_json.hpp"
#include "cli/input/words.hpp"
#include "cli/report/exit_code.hpp"
#include "cli/work/expression_facts.hpp"
#include "instance/call_args.hpp"
#include "launch/mask_plan.hpp"
#include "launch/merge_plan.hpp"
#include "launch/plan.hpp"
#include "launch/tensor_maps.hpp"
#include "problem/manifest_line.hpp"
#include "tuner/config_zero.hpp"

namespace attnjit::cli {
namespace {

base::Json parse_config(const std::string& text) {
  const base::Json json = base::try_parse_json(text, base::JsonComments::kAllowed);
  if (!json.is_object()) {
    usage_error(
        "--config: expected a JSON object such as {{\"block_q\": 128, \"num_warps\": 8}}; a "
        "backward's is {{\"dkv\": {{\"block_q\": 64}}}}");
  }
  return json;
}

std::string warps_of(const launch::StepSpec& step) { return fmt::format("w{}", step.threads / 32); }

std::string tile_of(const launch::ForwardPlanSpec& spec, std::size_t step) {
  if (step == main_step(spec)) return codegen::describe_tile(spec.tunables);
  return warps_of(spec.steps[step]);
}

std::string tile_of(const launch::BackwardPlanSpec& spec, std::size_t step) {
  switch (spec.steps[step].kind) {
    case launch::BackwardStep::kDkv:
      return codegen::describe_tile(spec.tunables.dkv);
    case launch::BackwardStep::kDq:
      return codegen::describe_tile(spec.tunables.dq);
    case launch::BackwardStep::kDbias:
      return codegen::describe_tile(spec.tunables.dbias);
    default:
      return warps_of(spec.steps[step]);
  }
}

const ForwardArgs& forward_of(const ForwardArgs& args) { return args; }
const ForwardArgs& forward_of(const BackwardArgs& args) { return args.forward; }

// Fills in what the kernels of `spec` say.
template <class Pass>
void set_steps(const typename Pass::Spec& spec, const typename Pass::Problem& problem,
               const typename Pass::Args& args, const runtime::Engine& engine,
               const codegen::Arch& arch, Planned& planned) {
  const typename Pass::Layout layout = launch::workspace_layout(spec, problem);
  planned.problem = problem::describe(problem);
  planned.manifest_line = problem::manifest_line(problem);
  planned.main_step = main_step(spec);
  planned.workspace_bytes = layout.bytes;
  planned.expressions = expression_facts(spec, problem, forward_of(args).operands);
  try {
    // For the grids: nothing is launched, so any address does for the workspace.
    const auto launches =
        Pass::arguments(spec, problem, args, layout, &planned, launch::encode_nothing);
    for (std::size_t i = 0; i < spec.steps.size(); ++i) {
      const unsigned(&grid)[3] = launches.shape(i).grid;
      planned.steps.push_back({spec.steps[i],
                               tile_of(spec, i),
                               {grid[0], grid[1], grid[2]},
                               engine.key(spec.steps[i].source, arch)});
    }
  } catch (const Error& error) {
    // A sound problem with more thread blocks than a launch can have.
    throw Error(ErrorKind::kUnsupported, error.what());
  }
}

// Adds a kernel of another call.
void add_step(const launch::StepSpec& step, const runtime::Engine& engine,
              const codegen::Arch& arch, Planned& planned) {
  planned.steps.push_back({step, warps_of(step), {0, 1, 1}, engine.key(step.source, arch)});
}

// The kernels of Context::merge_lse for parts as `problem` writes them: into q's dtype and into the
// fp32 of a sum that goes on, without and with one so far. The problem itself launches none.
void add_merges(const problem::Problem& problem, const runtime::Engine& engine,
                const codegen::Arch& arch, Planned& planned) {
  for (const DType dtype : {problem.dtype, DType::kFloat32}) {
    for (const bool carry : {false, true}) {
      const problem::MergeKey key{.part_dtype = problem.dtype,
                                  .dtype = dtype,
                                  .head_dim_v = problem.head_dim_v,
                                  .aligned = problem.aligned && problem.head_dim_v % 8 == 0,
                                  .carry = carry};
      add_step(launch::make_merge_plan_spec(key, engine.templates()).steps.front(), engine, arch,
               planned);
    }
  }
}

// The kernels of Context::prepare_mask for the mask of `problem`, whichever strides it had. The
// problem itself launches none.
void add_prepared_mask(const problem::Problem& problem, bool backward,
                       const runtime::Engine& engine, const codegen::Arch& arch, Planned& planned) {
  if (!problem.mask_prepared) return;
  const bool per_pair = problem.mask.extent == problem::Extent::kPerPair;
  for (const bool vectorized : {false, true}) {
    const problem::MaskKey key{per_pair, vectorized, per_pair && backward};
    add_step(launch::make_mask_plan_spec(key, engine.templates()).steps.front(), engine, arch,
             planned);
  }
}

template <class Choice>
Planned begin_plan(const Case& job, const codegen::Arch& arch, const Choice& choice) {
  Planned planned;
  planned.name = job.name;
  planned.source = job.source;
  planned.arch = &codegen::find_arch(arch.name);
  planned.config = base::to_json_value(choice.config);
  planned.config_from = choice.from;
  planned.why = choice.why;
  return planned;
}

// Adds what keeps configuration 0 from wgmma on an architecture that has it. There is nothing to
// add where it takes wgmma, or where another configuration was chosen for its speed.
template <class PlanKey, class Tunables>
void add_why_mma(Planned& planned, const PlanKey& key, const Tunables& chosen,
                 const codegen::Arch& arch) {
  const auto takes_mma = [](const Tunables& t) { return main_path(t) == codegen::Path::kMma; };
  if (!arch.wgmma || !takes_mma(chosen) || !takes_mma(tuner::config_zero(key, arch))) return;
  planned.why +=
      fmt::format("{}path mma: {}", planned.why.empty() ? "" : "; ", tuner::why_mma(key, arch));
}

// Path::kMma where --config names it, of a backward for dk and dv: what else it names are members
// of that configuration 0.
std::optional<codegen::Path> mma_of(const base::Json& config) {
  const base::Json& tile = config.contains("dkv") ? config["dkv"] : config;
  if (!tile.is_object() || !tile.contains("path")) return std::nullopt;
  const auto path = base::from_json_value<codegen::Path>(tile["path"], "--config: path");
  return path == codegen::Path::kMma ? std::optional(path) : std::nullopt;
}

constexpr const char* kFromFlag = "--config";
constexpr const char* kFromPath = "--path";
constexpr const char* kWhyFromFlag =
    "given on the command line, over the members of configuration 0";
constexpr const char* kWhyFromPath = "configuration 0 of the path that the command line names";

}  // namespace

Planner::Planner(runtime::Engine& engine, const std::optional<std::string>& config,
                 std::vector<tuner::DeviceClass> devices, std::optional<codegen::Path> path)
    : engine_(engine), path_(path), devices_(std::move(devices)) {
  if (config) config_ = parse_config(*config);
}

template <class Problem>
auto Planner::choose(const Problem& problem, const codegen::Arch& arch) {
  const auto key = problem::plan_key(problem);
  using Pass = launch::PassFor<Problem>;
  using Tunables = typename Pass::Tunables;
  if (config_ || path_) {
    const auto path = path_ ? path_ : mma_of(*config_);
    const Tunables zero =
        path ? tuner::config_zero_on(*path, key, arch) : tuner::config_zero(key, arch);
    if (!config_) return Choice<Tunables>{zero, kFromPath, kWhyFromPath};
    return Choice<Tunables>{base::patched(zero, base::parse_patch<Tunables>(*config_, kFromFlag)),
                            kFromFlag, kWhyFromFlag};
  }
  const auto choice = runtime::choose_plan<Pass>(engine_, problem, key, arch, device(arch),
                                                 runtime::Compiling::kForbidden);
  return Choice<Tunables>{choice.config, std::string(name(choice.source)), choice.why};
}

Planned Planner::plan(const Case& job, const codegen::Arch& arch) {
  // As many splits as a call on the device at hand has.
  codegen::Arch target = arch;
  if (const auto here = device(arch)) target.sm_count = here->sm_count;
  return job.spec.backward ? make(job, target, choose(make_backward_problem(job.spec), target))
                           : make(job, target, choose(make_problem(job.spec), target));
}

launch::ForwardPlanSpec Planner::forward(const problem::Problem& problem,
                                         const codegen::Arch& arch) {
  return engine_.plan(problem, arch, choose(problem, arch).config);
}

launch::BackwardPlanSpec Planner::backward(const problem::BackwardProblem& problem,
                                           const codegen::Arch& arch) {
  return engine_.plan(problem, arch, choose(problem, arch).config);
}

std::vector<Planned> Planner::variants(const Case& job, const codegen::Arch& arch) {
  return job.spec.backward ? variants(job, make_backward_problem(job.spec), arch)
                           : variants(job, make_problem(job.spec), arch);
}

template <class Problem>
std::vector<Planned> Planner::variants(const Case& job, const Problem& problem,
                                       const codegen::Arch& arch) {
  const auto key = problem::plan_key(problem);
  std::vector<Planned> list;
  std::optional<std::string> slow;
  const auto add = [&](const auto& choice, const std::string& whose) {
    using Tunables = std::remove_cvref_t<decltype(choice.config)>;
    list.push_back(make(
        job, arch, Choice<Tunables>{choice.config, std::string(name(choice.source)), choice.why}));
    list.back().name += whose;
    const auto spec = engine_.plan(key.family, arch, choice.config);
    const auto reason = runtime::why_slow(engine_, spec, arch, problem::problem_text(problem),
                                          runtime::Compiling::kForbidden);
    if (reason) slow = reason;
  };
  add(runtime::ConfigChoice<decltype(tuner::config_zero(key, arch))>{tuner::config_zero(key, arch)},
      "");
  for (const tuner::DeviceClass& each : devices_) {
    if (each.arch != arch.name) continue;
    const auto choice = runtime::find_config(engine_, problem, key, arch, each);
    if (choice.source == runtime::ConfigSource::kConfigZero) continue;
    add(choice, fmt::format(" ({})", each.name));
  }
  if (slow) add(runtime::fall_back(key, arch, *slow), " (without wgmma)");
  return list;
}

std::optional<tuner::DeviceClass> Planner::device(const codegen::Arch& arch) const {
  const auto found = std::ranges::find(devices_, arch.name, &tuner::DeviceClass::arch);
  return found == devices_.end() ? std::nullopt : std::optional(*found);
}

Planned Planner::make(const Case& job, const codegen::Arch& arch, const ForwardChoice& choice) {
  const problem::Problem problem = make_problem(job.spec);
  Planned planned = begin_plan(job, arch, choice);
  if (!config_ && !path_) add_why_mma(planned, problem::plan_key(problem), choice.config, arch);
  set_steps<launch::ForwardPass>(engine_.plan(problem, arch, choice.config), problem,
                                 instance::ShapeCall(job.spec).forward(), engine_, arch, planned);
  if (job.merges) add_merges(problem, engine_, arch, planned);
  add_prepared_mask(problem, false, engine_, arch, planned);
  return planned;
}

Planned Planner::make(const Case& job, const codegen::Arch& arch, const BackwardChoice& choice) {
  const problem::BackwardProblem problem = make_backward_problem(job.spec);
  Planned planned = begin_plan(job, arch, choice);
  if (!config_ && !path_) add_why_mma(planned, problem::plan_key(problem), choice.config, arch);
  set_steps<launch::BackwardPass>(engine_.plan(problem, arch, choice.config), problem,
                                  instance::ShapeCall(job.spec).backward(), engine_, arch, planned);
  add_prepared_mask(problem.forward, true, engine_, arch, planned);
  return planned;
}

const PlannedStep& pick_step(const Planned& planned, const std::string& step) {
  if (step.empty()) return planned.steps[planned.main_step];
  for (std::size_t i = 0; i < planned.steps.size(); ++i) {
    const PlannedStep& candidate = planned.steps[i];
    if (step == fmt::to_string(i + 1) || step == candidate.spec.source.entry) return candidate;
  }
  usage_error("--step: '{}'; expected a number from 1 to {}, or one of {}", step,
              planned.steps.size(),
              listing(planned.steps, [](const PlannedStep& s) { return s.spec.source.entry; }));
}

}  // namespace attnjit::cli
