#pragma once
#include <string>
#include <vector>

#include "attnjit/forward_combine_config.h"
#include "attnjit/forward_config.h"
#include "attnjit/mask_pack_config.h"
#include "codegen/templates.hpp"
#include "problem/family.hpp"

namespace attnjit::codegen {

/// A generated kernel: everything that NVRTC needs, in one text.
struct Source {
  std::string entry;  ///< name of the extern "C" kernel
  std::string title;  ///< one line: what it is specialised for
  std::string stub;   ///< the generated part, before flattening
  std::string text;   ///< self-contained CUDA C++
};

/// The kernel parameters of the forward kernel, in order, after ForwardParams. A feature that the
/// family lacks has none.
enum class ForwardFeature { kSeqlens, kBias, kRowBias, kPackedMask, kRowMask, kBand, kLength };
std::vector<ForwardFeature> forward_features(const problem::Family& family);

/// The forward kernel of `family` under `config`.
Source render_forward(const problem::Family& family, const kernel::ForwardConfig& config,
                      const TemplateSet& templates);

/// The mask prepass under `config`.
Source render_mask_pack(const kernel::MaskPackConfig& config, const TemplateSet& templates);

/// The kernel that adds up the splits of a forward.
Source render_forward_combine(const kernel::ForwardCombineConfig& config,
                              const TemplateSet& templates);

/// The fields of the config that follow from the family, the tile left at zero.
kernel::ForwardConfig specialise(const problem::Family& family);

/// "q128 kv64 s2 w8 b1": the tile of a config, for titles and tables.
std::string describe_tile(const kernel::ForwardConfig& config);

}  // namespace attnjit::codegen
