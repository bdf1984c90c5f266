#pragma once
#include <optional>

#include "attnjit/backward.hpp"
#include "attnjit/score/bias_grad_params.h"
#include "codegen/kernels/main_kernels.hpp"
#include "launch/tensor_map_table.hpp"

/// The tensor maps of the main kernels of a backward. Throw Error(kCuda) where the driver refuses
/// one.
namespace attnjit::launch {

/// A dbias, or parts of one, that attn_bwd_dkv writes tile by tile: [batch, query head, query,
/// key].
struct DbiasTiles {
  const kernel::BiasGradParams& memory;
  std::int32_t keys;  ///< columns that are written: of parts also those that pad a row, with zeros
};

/// `dbias`: if the kernel writes that tile by tile.
inline void set_maps(const auto&, const std::optional<DbiasTiles>&, const problem::BackwardProblem&,
                     const BackwardArgs&, const TensorMapMaker&, kernel::DkvWgmmaParams&) {}
void set_maps(const kernel::DkvWgmmaConfig& config, const std::optional<DbiasTiles>& dbias,
              const problem::BackwardProblem& problem, const BackwardArgs& args,
              const TensorMapMaker& maker, kernel::DkvWgmmaParams& params);
void set_maps(const kernel::DkvWgmmaD256Config& config, const std::optional<DbiasTiles>& dbias,
              const problem::BackwardProblem& problem, const BackwardArgs& args,
              const TensorMapMaker& maker, kernel::DkvWgmmaParams& params);

inline void set_maps(const kernel::BackwardMmaConfig&, const problem::BackwardProblem&,
                     const BackwardArgs&, const TensorMapMaker&, kernel::DqWgmmaParams&) {}
inline void set_maps(const kernel::BackwardSharedBiasConfig&, const problem::BackwardProblem&,
                     const BackwardArgs&, const TensorMapMaker&, kernel::DqWgmmaParams&) {}
void set_maps(const kernel::DqWgmmaConfig& config, const problem::BackwardProblem& problem,
              const BackwardArgs& args, const TensorMapMaker& maker, kernel::DqWgmmaParams& params);

}  // namespace attnjit::launch
