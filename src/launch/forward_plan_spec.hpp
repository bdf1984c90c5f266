#pragma once
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "attnjit/forward/wgmma/config.h"
#include "codegen/features.hpp"
#include "codegen/render.hpp"

namespace attnjit::launch {

/// One kernel of a plan, before it is compiled.
struct StepSpec {
  codegen::Source source;
  unsigned threads = 0;       ///< per block
  unsigned shared_bytes = 0;  ///< dynamic shared memory per block
  bool overlaps = false;      ///< begins before the step ahead of it has ended, and waits itself
};

/// `config` tells the threads of the kernel.
template <class Config>
StepSpec make_step(codegen::Source source, const Config& config, int shared_bytes) {
  return {std::move(source), static_cast<unsigned>(config.num_threads()),
          static_cast<unsigned>(shared_bytes)};
}

/// The properties of a forward kernel that its launch depends on, whichever its path.
struct ForwardTile {
  int block_q = 0, block_kv = 0;
  int packed_heads = 1;
  bool scale_first = false;
};

/// The forward as an ordered list of kernels: [mask_pack,] [packed_order,] attn_fwd,
/// attn_fwd_combine [, max_logits]. The combine runs for calls whose keys are split, the last for
/// those that want the largest score of each head. Needs no GPU.
struct ForwardPlanSpec {
  problem::Family family;
  codegen::ForwardTunables tunables;
  std::vector<const codegen::Feature*> features;
  ForwardTile tile;
  std::optional<kernel::ForwardWgmmaConfig> wgmma;  ///< of the kernel, where that is its path
  std::optional<kernel::MaskPackConfig> mask_pack;
  std::optional<kernel::PackedOrderConfig> packed_order;
  kernel::ForwardCombineConfig combine{};
  std::optional<kernel::MaxLogitsConfig> max_logits;
  int block_slots = 0;  ///< thread blocks of attn_fwd that the device holds at a time
  std::vector<StepSpec> steps;

  std::size_t order_step() const { return mask_pack ? 1 : 0; }
  std::size_t forward_step() const { return order_step() + (packed_order ? 1 : 0); }
  std::size_t combine_step() const { return forward_step() + 1; }
  std::size_t max_logits_step() const { return combine_step() + 1; }
};

/// The attention kernel itself; of a backward, that of dk and dv.
inline std::size_t main_step(const ForwardPlanSpec& spec) { return spec.forward_step(); }
/// The kernels of Path::kWgmma.
std::vector<std::size_t> wgmma_steps(const ForwardPlanSpec& spec);

/// `arch` supplies the number of SMs. `tunables` are fit for it, see codegen::why_unfit().
ForwardPlanSpec make_forward_plan_spec(const problem::Family& family,
                                       const codegen::ForwardTunables& tunables,
                                       const codegen::Arch& arch,
                                       const codegen::TemplateSet& templates);

/// Thread blocks of attn_fwd, and into how many shares the keys of each row tile are split.
struct ForwardGrid {
  std::int32_t q_tiles = 0;  ///< of a plane, which packed sequences share
  std::int64_t planes = 0;   ///< heads, or kv heads where the config packs heads, of all batches
  std::int32_t splits = 1;
  std::int32_t section_planes = 1;  ///< planes whose row tiles take turns
  std::int32_t sections = 1;        ///< of kernel::PackedWork, at most
  bool falling = false;             ///< a plane's row tiles cost the less the later they come

  std::int64_t blocks() const { return planes * q_tiles * splits; }
};
ForwardGrid forward_grid(const ForwardPlanSpec& spec, const problem::Problem& problem);

/// The places of what a plan's steps hand to each other, as byte offsets into one workspace that
/// is aligned to kWorkspaceAlignment.
struct WorkspaceLayout {
  ForwardGrid grid;                              ///< of the call that it is for
  std::size_t mask = 0;                          ///< packed, see PackedMaskLayout
  std::size_t order = 0, order_counts = 0;       ///< of the blocks of rows of packed sequences
  std::size_t partial_out = 0, partial_lse = 0;  ///< of the splits
  std::size_t partial_row_max = 0;               ///< likewise, where rows' maxima are wanted
  std::size_t row_max = 0;                       ///< where those of heads are wanted alone
  std::size_t bytes = 0;                         ///< total
};
inline constexpr std::size_t kWorkspaceAlignment = 256;

WorkspaceLayout workspace_layout(const ForwardPlanSpec& spec, const problem::Problem& problem);

}  // namespace attnjit::launch
