#pragma once
#include <cstddef>
#include <optional>
#include <vector>

#include "codegen/render.hpp"
#include "problem/family.hpp"

namespace attnjit::launch {

/// One kernel of a plan, before it is compiled.
struct StepSpec {
  codegen::Source source;
  unsigned threads = 0;       ///< per block
  unsigned shared_bytes = 0;  ///< dynamic shared memory per block
};

/// The forward as an ordered list of kernels: [mask_pack,] attn_fwd. Needs no GPU.
struct ForwardPlanSpec {
  problem::Family family;
  kernel::ForwardConfig config{};
  std::optional<kernel::MaskPackConfig> mask_pack;
  std::vector<StepSpec> steps;
};

ForwardPlanSpec make_forward_plan_spec(const problem::Family& family,
                                       const kernel::ForwardConfig& config,
                                       std::optional<kernel::MaskPackConfig> mask_pack,
                                       const codegen::TemplateSet& templates);

/// Where a plan's steps keep what they hand to each other, as byte offsets into one workspace that
/// is aligned to kWorkspaceAlignment.
struct WorkspaceLayout {
  std::size_t words = 0;    ///< packed mask
  std::size_t classes = 0;  ///< one byte per mask tile
  std::size_t bytes = 0;    ///< total
};
inline constexpr std::size_t kWorkspaceAlignment = 256;

WorkspaceLayout workspace_layout(const ForwardPlanSpec& spec, const problem::Problem& problem);

}  // namespace attnjit::launch
