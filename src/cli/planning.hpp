#pragma once
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "cli/cases.hpp"
#include "cli/session.hpp"

namespace attnjit::cli {

/// One kernel of a planned problem.
struct PlannedStep {
  launch::StepSpec spec;
  std::string tile;  ///< "q128 kv64 s2 w8 b1"
  std::array<unsigned, 3> grid{};
  cache::KernelKey key;
};

/// What a problem would run on an architecture, and why.
struct Planned {
  std::string name;
  std::string source;
  problem::Problem problem;
  const codegen::Arch* arch = nullptr;
  kernel::ForwardConfig config{};
  std::string config_from;  ///< "configuration 0" or "--config"
  std::string why;          ///< a sentence on that
  std::vector<PlannedStep> steps;
  std::size_t forward_step = 0;  ///< the attention kernel itself
  std::size_t workspace_bytes = 0;
};

/// Makes plans; needs no GPU and no compiler.
class Planner {
 public:
  /// `config_json` sets members of configuration 0, see codegen::update_from_json().
  Planner(runtime::Engine& engine, std::optional<std::string> config_json);

  /// Throws as make_problem() does, and a usage error for a config that is not legal here.
  Planned plan(const Case& job, const codegen::Arch& arch);

 private:
  runtime::Engine& engine_;
  std::optional<std::string> config_json_;
};

/// The step that --step names, by number from 1 or by entry name; attn_fwd where it names none.
const PlannedStep& pick_step(const Planned& planned, const std::string& step);

}  // namespace attnjit::cli
