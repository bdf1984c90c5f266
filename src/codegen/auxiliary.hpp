#pragma once
#include <optional>

#include "attnjit/forward_combine_config.h"
#include "attnjit/forward_config.h"
#include "attnjit/mask_pack_config.h"
#include "problem/family.hpp"

namespace attnjit::codegen {

/// The prepass that packs the mask for a forward kernel; none where there is no mask over keys.
std::optional<kernel::MaskPackConfig> mask_pack_config(const problem::Family& family,
                                                       const kernel::ForwardConfig& config);

/// The kernel that adds up the splits of a forward kernel.
kernel::ForwardCombineConfig forward_combine_config(const kernel::ForwardConfig& config);

}  // namespace attnjit::codegen
