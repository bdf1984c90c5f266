#include "cli/planning.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cli/exit_code.hpp"
#include "cli/words.hpp"
#include "codegen/config_json.hpp"
#include "launch/forward_arguments.hpp"
#include "tuner/config_zero.hpp"

namespace attnjit::cli {
namespace {

// Configuration 0 with the members that `json` sets. Everything but the tile follows from the
// problem; a kernel made for another problem would read its tensors wrongly.
kernel::ForwardConfig config_from_json(const std::string& json, const problem::PlanKey& key,
                                       const codegen::Arch& arch) {
  kernel::ForwardConfig config = tuner::config_zero(key, arch);
  codegen::update_from_json(config, json);
  if (const auto rule = codegen::why_foreign(config, key.family)) {
    usage_error(
        "--config describes another problem: {}; set the tile only: block_q, block_kv, "
        "num_stages, num_warps, min_blocks, softmax, pack_heads",
        *rule);
  }
  return config;
}

std::string tile_of(const launch::ForwardPlanSpec& spec, std::size_t step) {
  if (step == spec.forward_step()) return codegen::describe_tile(spec.config);
  if (step == spec.combine_step()) return fmt::format("w{}", spec.combine.num_warps);
  return fmt::format("q{} kv{} w{}", spec.mask_pack->block_q, spec.mask_pack->block_kv,
                     spec.mask_pack->num_warps);
}

void set_steps(const launch::ForwardPlanSpec& spec, const ForwardArgs& args,
               const runtime::Engine& engine, Planned& planned) {
  // For the grids: nothing is launched, so any address does for the workspace.
  const launch::ForwardArguments launches(
      spec, planned.problem, args, launch::workspace_layout(spec, planned.problem), args.q.data);
  for (std::size_t i = 0; i < spec.steps.size(); ++i) {
    const unsigned(&grid)[3] = launches.shape(i).grid;
    planned.steps.push_back({spec.steps[i],
                             tile_of(spec, i),
                             {grid[0], grid[1], grid[2]},
                             engine.key(spec.steps[i].source, *planned.arch)});
  }
}

}  // namespace

Planner::Planner(runtime::Engine& engine, std::optional<std::string> config_json,
                 std::vector<tuner::DeviceClass> devices)
    : engine_(engine), config_json_(std::move(config_json)), devices_(std::move(devices)) {}

Planned Planner::plan(const Case& job, const codegen::Arch& arch) {
  const problem::Problem problem = make_problem(job.spec);
  if (config_json_) {
    const auto config = config_from_json(*config_json_, problem::plan_key(problem), arch);
    Planned planned = make(job, problem, arch, {config, {}, ""});
    planned.config_from = "--config";
    planned.why = "given on the command line, over the members of configuration 0";
    return planned;
  }
  const auto device = std::ranges::find(devices_, arch.name, &tuner::DeviceClass::arch);
  if (device == devices_.end()) {
    return make(job, problem, arch, runtime::choose_config(engine_, problem, arch, std::nullopt));
  }
  // As many splits as a call on that device has.
  codegen::Arch target = arch;
  target.sm_count = device->sm_count;
  Planned planned =
      make(job, problem, target, runtime::choose_config(engine_, problem, arch, *device));
  planned.arch = &arch;  // the table's, which outlives this
  return planned;
}

std::vector<Planned> Planner::variants(const Case& job, const codegen::Arch& arch) {
  const problem::Problem problem = make_problem(job.spec);
  const problem::PlanKey key = problem::plan_key(problem);
  std::vector<Planned> list = {make(job, problem, arch, {tuner::config_zero(key, arch), {}, ""})};
  for (const tuner::DeviceClass& device : devices_) {
    if (device.arch != arch.name) continue;
    const auto choice = runtime::choose_config(engine_, problem, arch, device);
    if (choice.source == runtime::ConfigSource::kConfigZero) continue;
    list.push_back(make(job, problem, arch, choice));
    list.back().name += fmt::format(" ({})", device.name);
  }
  return list;
}

Planned Planner::make(const Case& job, const problem::Problem& problem, const codegen::Arch& arch,
                      const runtime::ConfigChoice& choice) {
  Planned planned;
  planned.name = job.name;
  planned.source = job.source;
  planned.problem = problem;
  planned.arch = &arch;
  planned.config_from = name(choice.source);
  planned.why = choice.why;
  const launch::ForwardPlanSpec spec = engine_.plan_forward(problem, arch, choice.config);
  planned.config = spec.config;
  planned.forward_step = spec.forward_step();
  planned.workspace_bytes = launch::workspace_layout(spec, problem).bytes;
  try {
    set_steps(spec, shape_args(job.spec), engine_, planned);
  } catch (const Error& error) {
    // A sound problem with more thread blocks than a launch can have.
    throw Error(ErrorKind::kUnsupported, error.what());
  }
  return planned;
}

const PlannedStep& pick_step(const Planned& planned, const std::string& step) {
  if (step.empty()) return planned.steps[planned.forward_step];
  for (std::size_t i = 0; i < planned.steps.size(); ++i) {
    const PlannedStep& candidate = planned.steps[i];
    if (step == fmt::to_string(i + 1) || step == candidate.spec.source.entry) return candidate;
  }
  usage_error("--step: '{}'; expected a number from 1 to {}, or one of {}", step,
              planned.steps.size(),
              listing(planned.steps, [](const PlannedStep& s) { return s.spec.source.entry; }));
}

}  // namespace attnjit::cli
