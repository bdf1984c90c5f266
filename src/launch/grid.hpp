#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "attnjit/forward/params.h"
#include "codegen/arch.hpp"
#include "cuda/launch.hpp"
#include "launch/step_spec.hpp"
#include "problem/problem.hpp"

namespace attnjit::launch {

/// a / b rounded up; kernel::ceil_div() is for 32 bits.
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return a / b + (a % b != 0 ? 1 : 0);
}

/// The parts of a kernel's time that do not shrink with its share of the work, in tiles.
struct SplitCosts {
  std::int64_t start;    ///< a thread block's start and end
  std::int64_t combine;  ///< what puts the shares together again
  /// How many shares add a tile to that.
  std::int64_t shares_per_tile;
};

/// How many ways to split `tiles` tiles, when `blocks` thread blocks would have one way and the
/// device holds `slots` at a time: minimises the tiles that pass one after another on the busiest
/// slot. 1 where splitting does not help.
std::int32_t choose_splits(std::int64_t blocks, std::int64_t tiles, std::int64_t slots,
                           const SplitCosts& costs);

/// The number of planes whose tiles alternate under a causal mask: its last rows take longest (its
/// first keys in the backward), so the long ones of several planes go first, and the device runs
/// dry at the end of a section only. What `sharers` planes read together, `bytes` in all, should
/// stay in L2: 16 MiB is four heads of 8192 keys (D128).
std::int32_t choose_section(std::int64_t bytes, std::int64_t sharers, std::int64_t planes);

/// Into how many sections the blocks of rows of packed sequences go: of equal numbers of kv heads,
/// for the last one has to fill the device as the others do, which have up to 24 MiB together, or
/// of one. An H200's L2 has 50 MB, and the section before still uses it, as queries and results do.
std::int32_t choose_sections(std::int64_t kv_head_bytes, std::int32_t kv_heads);

/// Thread blocks of a kernel, each of `shared_bytes`, that an SM of `arch` holds at a time: the
/// launch bounds ask for config.min_blocks, and no compiler gives a thread more than kMost
/// registers, so that there is room for two blocks of 128 threads in any case. Shared memory may
/// allow fewer. Source: CUDA C++ Programming Guide, "Technical Specifications per Compute
/// Capability".
template <class Config>
int blocks_per_sm(const Config& config, int shared_bytes, const codegen::Arch& arch) {
  constexpr int kReserved = 1024;  // bytes of shared memory that the system takes per block
  constexpr int kRegisters = 64 * 1024, kMost = 256;
  const int by_registers = std::max(config.min_blocks, kRegisters / (config.num_threads() * kMost));
  const int by_memory = arch.shared_bytes_per_sm / (shared_bytes + kReserved);
  return std::max(1, std::min(by_memory, by_registers));
}

/// Strides as kernels take them.
inline kernel::RowStrides row_strides(const problem::RowStrides& s) {
  return {s.batch, s.head, s.row};
}

/// The launch of `blocks` thread blocks of `step`. Throws Error(kInvalidProblem) where they are too
/// many for one.
cuda::LaunchShape launch_shape(const StepSpec& step, std::int64_t blocks);

inline constexpr std::size_t kWorkspaceAlignment = 256;

/// `bytes` rounded up to kWorkspaceAlignment.
std::size_t align_up(std::size_t bytes);

}  // namespace attnjit::launch
