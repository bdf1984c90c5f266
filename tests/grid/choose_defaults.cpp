// Chooses the tiles of configs/defaults/backward.json: choose_defaults TABLE PROBES OUT [FIRST]
// writes TABLE to OUT with "use" of the rules of "dkv" replaced, from rule FIRST (default 1) on. A
// rule keeps its tile unless that spills for a probe that meets the rule: then it gets the first
// candidate that fits and spills for none. Where this machine's GPU runs some of those probes, the
// fastest of the present tile and the first of those candidates wins, over the first kMembers
// probes.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/fields_json.hpp"
#include "base/parallel.hpp"
#include "cli/input/manifest.hpp"
#include "cuda/device.hpp"
#include "runtime/load/plan_loader.hpp"
#include "runtime/tune/problem_tuner.hpp"
#include "runtime/tune/trial.hpp"
#include "tuner/config_zero.hpp"
#include "tuner/embedded_configs.hpp"

namespace attnjit {
namespace {

using codegen::BackwardTile;
using Rule = tuner::TileRules<BackwardTile>::Rule;

constexpr std::size_t kTimed = 5, kMembers = 3;
constexpr int kRounds = 7;
constexpr double kMargin = 0.02;  // share of the present tile's time that another must save

std::string read_file(const char* path) {
  std::ifstream file(path);
  file.exceptions(std::ios::badbit | std::ios::failbit);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

/// A problem of the probes on an architecture; its kernel of dk and dv is to be chosen.
struct Probe {
  std::string name;
  problem::BackwardProblem problem;
  problem::BackwardPlanKey key;
  const codegen::Arch* arch;
  codegen::BackwardTunables zero;

  codegen::BackwardTunables with(const BackwardTile& tile) const {
    codegen::BackwardTunables config = zero;
    config.dkv = tile;
    return config;
  }
};

/// The compiler's facts of a candidate over all probes of a rule.
struct Facts {
  bool fits = true;
  int registers = 0, spill = 0;  ///< the most of any; bytes
  std::string worst;             ///< the first probe that spills
};

class Chooser {
 public:
  explicit Chooser(runtime::Engine& engine) : engine_(engine) {
    try {
      driver_ = cuda::Driver::load();
      context_.emplace(*driver_);
      device_arch_ = runtime::arch_of(cuda::current_device(*driver_)).name;
    } catch (const Error& error) {
      fmt::print("no times: {}\n", error.what());
    }
  }

  BackwardTile choose(const Rule& rule, const std::vector<Probe>& probes) {
    const std::vector<const Probe*> members = timed(probes);
    std::vector<BackwardTile> clean;
    for (const BackwardTile& tile : tiles(rule)) {
      const Facts facts = compile(tile, probes);
      if (!facts.fits) continue;
      fmt::print("    {}: {} registers, spills {} bytes {}\n", describe_tile(tile), facts.registers,
                 facts.spill, facts.worst);
      if (facts.spill == 0 || (tile == rule.use && !members.empty())) clean.push_back(tile);
      if (clean.size() == (members.empty() ? 1 : kTimed)) break;
    }
    if (clean.empty()) throw Error(ErrorKind::kInternal, "every candidate of a rule spills");
    return clean.size() == 1 ? clean[0] : fastest(clean, members);
  }

 private:
  // The present one first.
  static std::vector<BackwardTile> tiles(const Rule& rule) {
    std::vector<BackwardTile> list = {rule.use};
    for (const base::Patch<BackwardTile>& patch : rule.candidates) {
      const BackwardTile tile = base::patched(BackwardTile{}, patch);
      if (tile != rule.use) list.push_back(tile);
    }
    return list;
  }

  Facts compile(const BackwardTile& tile, const std::vector<Probe>& probes) {
    Facts facts;
    for (const Probe& probe : probes) {
      if (codegen::why_unfit(probe.with(tile), probe.key.family, *probe.arch)) facts.fits = false;
    }
    if (!facts.fits) return facts;
    std::mutex mutex;
    std::atomic<bool> spilt = false;
    base::parallel_for(probes.size(), engine_.environment().jobs, [&](std::size_t i) {
      if (spilt) return;
      const Probe& probe = probes[i];
      const auto spec = engine_.plan(probe.key.family, *probe.arch, probe.with(tile));
      const codegen::Source& source = spec.steps[spec.main_step()].source;
      const auto each =
          runtime::facts(*engine_.kernel(source, *probe.arch, {probe.name, ""})).value();
      const std::scoped_lock lock(mutex);
      const int spill = std::max(each.spill_store_bytes, each.spill_load_bytes);
      facts.registers = std::max(facts.registers, each.registers);
      if (spill > facts.spill) {
        facts.spill = spill;
        facts.worst = fmt::format("({} on {})", probe.name, probe.arch->name);
        spilt = true;
      }
    });
    return facts;
  }

  std::vector<const Probe*> timed(const std::vector<Probe>& probes) const {
    std::vector<const Probe*> list;
    for (const Probe& probe : probes) {
      if (probe.arch->name == device_arch_ && list.size() < kMembers) list.push_back(&probe);
    }
    return list;
  }

  BackwardTile fastest(const std::vector<BackwardTile>& tiles,
                       const std::vector<const Probe*>& probes) {
    std::vector<double> ratios(tiles.size(), 1.0);
    for (const Probe* probe : probes) {
      const std::vector<double> us = measure(tiles, *probe);
      for (std::size_t i = 0; i < tiles.size(); ++i) {
        ratios[i] *= us[i] / us[0];
        fmt::print("    {} {}: {:.1f} us\n", probe->name, describe_tile(tiles[i]), us[i]);
      }
    }
    const auto best = std::ranges::min_element(ratios);
    const double margin = std::pow(1 - kMargin, static_cast<double>(probes.size()));
    return *best < margin ? tiles[static_cast<std::size_t>(best - ratios.begin())] : tiles[0];
  }

  // Medians of rounds in which the tiles take turns.
  std::vector<double> measure(const std::vector<BackwardTile>& tiles, const Probe& probe) {
    const codegen::Arch arch = runtime::arch_of(cuda::current_device(*driver_));
    std::vector<std::unique_ptr<launch::BackwardPlan>> plans;
    std::size_t workspace = 0;
    for (const BackwardTile& tile : tiles) {
      plans.push_back(runtime::load_plan<launch::BackwardPass>(
          engine_, *driver_, engine_.plan(probe.key.family, arch, probe.with(tile)), arch,
          probe.problem));
      workspace =
          std::max(workspace, launch::workspace_layout(plans.back()->spec(), probe.problem).bytes);
    }
    std::atomic<std::uint64_t> launches = 0;
    runtime::Trial<launch::BackwardPass> trial(*driver_, probe.problem, workspace,
                                               engine_.environment().jobs, launches);
    const problem::Problem& forward = probe.problem.forward;
    trial.run_forward(*runtime::load_plan<launch::ForwardPass>(
        engine_, *driver_, engine_.plan(forward, arch), arch, forward));
    std::vector<std::vector<double>> times(tiles.size());
    for (const auto& plan : plans) trial.measure_us(*plan);  // warms up
    for (int round = 0; round < kRounds; ++round) {
      for (std::size_t i = 0; i < tiles.size(); ++i) {
        times[i].push_back(trial.measure_us(*plans[i]));
      }
    }
    std::vector<double> medians;
    for (std::vector<double>& each : times) {
      std::ranges::nth_element(each, each.begin() + kRounds / 2);
      medians.push_back(each[kRounds / 2]);
    }
    return medians;
  }

  runtime::Engine& engine_;
  std::shared_ptr<const cuda::Driver> driver_;
  std::optional<cuda::PrimaryContext> context_;
  std::string_view device_arch_;
};

std::map<const Rule*, std::vector<Probe>> probes_by_rule(const tuner::Defaults& defaults,
                                                         const char* manifest) {
  std::map<const Rule*, std::vector<Probe>> rules;
  const cli::Manifest probes = cli::load_manifest(manifest);
  for (const cli::Case& job : probes.cases) {
    const auto problem = cli::make_backward_problem(job.spec);
    const auto key = problem::plan_key(problem);
    for (const std::string& name : probes.archs) {
      const codegen::Arch& arch = codegen::find_arch(name);
      const auto zero = tuner::config_zero(key, arch, defaults);
      const Rule& rule = defaults.dkv.find(tuner::traits(key, zero.dbias_method, arch));
      rules[&rule].push_back({job.name, problem, key, &arch, zero});
    }
  }
  return rules;
}

// `text` with the object after the `index`-th "use" behind `table` replaced.
void replace_use(std::string& text, std::string_view table, std::size_t index,
                 const BackwardTile& tile) {
  std::size_t at = text.find(fmt::format("\"{}\": [", table));
  for (std::size_t i = 0; i <= index; ++i) at = text.find("\"use\": {", at) + 7;
  base::Json json = base::to_json_value(tile);
  if (tile.path == codegen::Path::kMma) json.erase("path");
  std::string members;
  for (const auto& [name, value] : json.items()) {
    members += fmt::format("{}\"{}\": {}", members.empty() ? "" : ", ", name, value.dump());
  }
  text.replace(at, text.find('}', at) + 1 - at, fmt::format("{{ {} }}", members));
}

void run(const char* table, const char* manifest, const char* out, std::size_t first) {
  std::string text = read_file(table);
  const tuner::Defaults defaults = tuner::read_defaults(tuner::embedded_forward_defaults(), text);
  const auto members = probes_by_rule(defaults, manifest);
  runtime::Engine engine(base::process_environment());
  Chooser chooser(engine);
  const std::vector<Rule>& rules = defaults.dkv.rules();
  for (std::size_t i = first - 1; i < rules.size(); ++i) {
    const auto probes = members.find(&rules[i]);
    if (probes == members.end()) {
      fmt::print("rule {} of dkv: no probe, keeps {}\n", i + 1, describe_tile(rules[i].use));
      continue;
    }
    fmt::print("rule {} of dkv: {} probes, was {}\n", i + 1, probes->second.size(),
               describe_tile(rules[i].use));
    const BackwardTile tile = chooser.choose(rules[i], probes->second);
    fmt::print("  takes {}\n", describe_tile(tile));
    std::fflush(stdout);
    replace_use(text, "dkv", i, tile);
    std::ofstream file(out);  // after each rule: an interrupted run keeps its choices
    file.exceptions(std::ios::badbit | std::ios::failbit);
    file << text;
  }
}

}  // namespace
}  // namespace attnjit

int main(int argc, char** argv) try {
  if (argc < 4 || argc > 5) {
    fmt::print(stderr, "usage: choose_defaults TABLE PROBES OUT [FIRST]\n");
    return 2;
  }
  attnjit::run(argv[1], argv[2], argv[3], argc == 5 ? std::stoul(argv[4]) : 1);
} catch (const std::exception& error) {
  fmt::print(stderr, "choose_defaults: {}\n", error.what());
  return 1;
}
