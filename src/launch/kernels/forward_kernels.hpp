#pragma once
#include <concepts>
#include <optional>

#include "attnjit/forward.hpp"
#include "codegen/kernels/main_kernels.hpp"
#include "launch/tensor_map_table.hpp"

/// Parameters of a launch of attn_fwd beyond those that all its kernels have.
namespace attnjit::launch {

/// The tensor maps that a forward leaves to later calls of its problem under its plan, in the
/// parameters that they are part of, and in these, beside zeros, the addresses that q, k, v and out
/// had. Nothing for a kernel without maps.
using KeptMaps = std::optional<kernel::ForwardWgmmaParams>;

/// The config of a kernel with maps.
template <class Config>
concept MapsKernel = std::same_as<Config, kernel::ForwardWgmmaConfig> ||
    std::same_as<Config, kernel::ForwardSharedBiasConfig>;

/// Parameters as a call begins with them: zeros, or those of `kept`.
inline void begin_parameters(const auto&, const KeptMaps&, kernel::ForwardWgmmaParams& params) {
  params.base = {};
}
inline void begin_parameters(const MapsKernel auto&, const KeptMaps& kept,
                             kernel::ForwardWgmmaParams& params) {
  params = kept ? *kept : kernel::ForwardWgmmaParams{};
}

/// Fills in the tensor maps of `params`, or gives those of `kept` the addresses of `args` where
/// they are others. Throws Error(kCuda) where the driver refuses one.
inline void set_maps(const auto&, const problem::Problem&, const ForwardArgs&,
                     const TensorMapMaker&, const KeptMaps&, kernel::ForwardWgmmaParams&) {}
template <MapsKernel Config>
void set_maps(const Config& config, const problem::Problem& problem, const ForwardArgs& args,
              const TensorMapMaker& maker, const KeptMaps& kept,
              kernel::ForwardWgmmaParams& params);

inline KeptMaps keep_maps(const auto&, const problem::Problem&, const ForwardArgs&,
                          const TensorMapMaker&) {
  return std::nullopt;
}
template <MapsKernel Config>
KeptMaps keep_maps(const Config& config, const problem::Problem& problem, const ForwardArgs& args,
                   const TensorMapMaker& maker);

}  // namespace attnjit::launch
