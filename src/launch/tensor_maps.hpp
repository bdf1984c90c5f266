#pragma once
#include <cuda.h>

#include <cstdint>
#include <optional>

#include "attnjit/backward.hpp"
#include "attnjit/backward/dkv_wgmma/config.h"
#include "attnjit/backward/dkv_wgmma_d256/config.h"
#include "attnjit/backward/dq_wgmma/config.h"
#include "attnjit/forward.hpp"
#include "attnjit/forward/wgmma/config.h"
#include "attnjit/score/bias_grad_params.h"
#include "launch/tensor_map_table.hpp"
#include "problem/backward_problem.hpp"
#include "problem/problem.hpp"

namespace attnjit::launch {

/// Whether the forward has a map of its bias, by which tiles to come are asked into L2. The copy
/// engine cannot address rows that are not aligned.
inline bool has_bias_map(const kernel::ForwardWgmmaConfig& config, const problem::Problem& p) {
  return p.bias.extent == problem::Extent::kPerPair && p.bias.vectorized && !config.pack_heads;
}
/// Whether it has those for tiles with the rows of k and v past the last multiple of four.
inline bool has_tail_maps(const problem::Problem& p) { return p.key_rows() % 4 != 0; }

/// Leaves the map as it is, for plans that are looked at and not launched.
CUresult CUDAAPI encode_nothing(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*,
                                const cuuint64_t*, const cuuint64_t*, const cuuint32_t*,
                                const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
                                CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

/// A dbias, or parts of one, that the kernel writes tile by tile: [batch, query head, query, key].
struct DbiasTiles {
  const kernel::BiasGradParams& memory;
  std::int32_t keys;  ///< columns that are written: of parts also those that pad a row, with zeros
};

/// Fills in the tensor maps of `params`, for a problem that the path is fit for. Throws
/// Error(kCuda) where a map is refused. `dbias`: if the kernel writes that tile by tile.
void set_tensor_maps(const kernel::ForwardWgmmaConfig& config, const problem::Problem& problem,
                     const ForwardArgs& args, const TensorMapMaker& maker,
                     kernel::ForwardWgmmaParams& params);
void set_tensor_maps(const kernel::BackwardWgmmaConfig& config,
                     const std::optional<DbiasTiles>& dbias,
                     const problem::BackwardProblem& problem, const BackwardArgs& args,
                     const TensorMapMaker& maker, kernel::BackwardWgmmaParams& params);
void set_tensor_maps(const kernel::BackwardWideConfig& config,
                     const problem::BackwardProblem& problem, const BackwardArgs& args,
                     const TensorMapMaker& maker, kernel::BackwardWgmmaParams& params);
void set_tensor_maps(const kernel::BackwardDqWgmmaConfig& config,
                     const problem::BackwardProblem& problem, const BackwardArgs& args,
                     const TensorMapMaker& maker, kernel::BackwardDqWgmmaParams& params);

}  // namespace attnjit::launch
