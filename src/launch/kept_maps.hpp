#pragma once
#include <optional>

#include "launch/tensor_maps.hpp"

namespace attnjit::launch {

/// What a forward leaves to later calls of its problem under its plan: the tensor maps that it
/// needs, in the parameters that they are part of, and in these, beside zeros, the addresses that
/// q, k, v and out had. Nothing on a path without maps.
using KeptMaps = std::optional<kernel::ForwardWgmmaParams>;

/// The same of passes that leave nothing.
struct NoMaps {};

KeptMaps keep_maps(const std::optional<kernel::ForwardWgmmaConfig>& config,
                   const problem::Problem& problem, const ForwardArgs& args,
                   const TensorMapMaker& maker);

/// Gives the maps of `params`, a copy of `kept`, the addresses of `args` where they are others.
/// Throws Error(kCuda) where the driver refuses one.
void move_maps(const kernel::ForwardWgmmaConfig& config, const problem::Problem& problem,
               const kernel::ForwardWgmmaParams& kept, const ForwardArgs& args,
               const TensorMapMaker& maker, kernel::ForwardWgmmaParams& params);

}  // namespace attnjit::launch
