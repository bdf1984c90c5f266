#pragma once
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "cli/input/cases.hpp"
#include "cli/work/session.hpp"
#include "runtime/call/config_choice.hpp"

namespace attnjit::cli {

/// One kernel of a planned problem.
struct PlannedStep {
  launch::StepSpec spec;
  std::string tile;  ///< "q128 kv64 s2 w8 b1"
  std::array<unsigned, 3> grid{};
  cache::KernelKey key;

  /// Whether the problem launches it. Plans hold the kernels of all problems with one key, of which
  /// a single problem may need fewer, such as none that adds up splits.
  bool runs() const { return grid[0] != 0; }
};

/// The kernels that a problem would run on an architecture, and why.
struct Planned {
  std::string name;
  std::string source;
  std::string problem;  ///< described
  std::string manifest_line;
  const codegen::Arch* arch = nullptr;
  base::Json config;        ///< codegen::ForwardTunables or BackwardTunables
  std::string config_from;  ///< "configuration 0", "record exact", "record neighbour" or "--config"
  std::string why;          ///< a sentence on that
  std::vector<std::string> expressions;  ///< what is derived from them, a line each
  std::vector<PlannedStep> steps;
  std::size_t main_step = 0;  ///< the attention kernel itself; of a backward, that of dk and dv
  std::size_t workspace_bytes = 0;
};

/// Makes plans; needs no GPU and no compiler.
class Planner {
 public:
  /// `config`, a JSON object, sets members of configuration 0. `devices` are those whose tuning
  /// records count; an architecture uses its first. `path` is the only one that plans may take.
  Planner(runtime::Engine& engine, const std::optional<std::string>& config,
          std::vector<tuner::DeviceClass> devices, std::optional<codegen::Path> path = {});

  /// The plan of a process on this machine. Throws as make_problem() does, a usage error for a
  /// config that is not legal here, and Error(kUnsupported) where the path does not serve.
  Planned plan(const Case& job, const codegen::Arch& arch);

  /// That plan itself, to be run.
  launch::ForwardPlanSpec forward(const problem::Problem& problem, const codegen::Arch& arch);
  launch::BackwardPlanSpec backward(const problem::BackwardProblem& problem,
                                    const codegen::Arch& arch);

  /// The plans of processes elsewhere: configuration 0, and those that the records of each device
  /// of `arch` say, slow or not (runtime::why_slow()); where one of them is known to be slow, the
  /// plan in its place too. Throws as plan() does.
  std::vector<Planned> variants(const Case& job, const codegen::Arch& arch);

 private:
  template <class Tunables>
  struct Choice {
    Tunables config{};
    std::string from;
    std::string why;
  };
  using ForwardChoice = Choice<codegen::ForwardTunables>;
  using BackwardChoice = Choice<codegen::BackwardTunables>;

  std::optional<tuner::DeviceClass> device(const codegen::Arch& arch) const;
  template <class Problem>
  auto choose(const Problem& problem, const codegen::Arch& arch);
  template <class Problem>
  std::vector<Planned> variants(const Case& job, const Problem& problem, const codegen::Arch& arch);
  Planned make(const Case& job, const codegen::Arch& arch, const ForwardChoice& choice);
  Planned make(const Case& job, const codegen::Arch& arch, const BackwardChoice& choice);

  runtime::Engine& engine_;
  std::optional<base::Json> config_;
  std::optional<codegen::Path> path_;
  std::vector<tuner::DeviceClass> devices_;
};

/// The step that --step names, by number from 1 or by entry name; planned.main_step where it names
/// none.
const PlannedStep& pick_step(const Planned& planned, const std::string& step);

}  // namespace attnjit::cli
