#pragma once
#include <variant>

#include "attnjit/backward/dkv_wgmma/config.h"
#include "attnjit/backward/dkv_wgmma_d256/config.h"
#include "attnjit/backward/dq_wgmma/config.h"
#include "attnjit/backward/mma/config.h"
#include "attnjit/backward/mma/shared_bias_config.h"
#include "attnjit/backward/mma/single_tile_config.h"
#include "attnjit/forward/mma/config.h"
#include "attnjit/forward/mma/single_tile_config.h"
#include "attnjit/forward/wgmma/config.h"
#include "attnjit/forward/wgmma/shared_bias_config.h"
#include "codegen/source.hpp"
#include "codegen/tunables.hpp"

/// The main kernels, those that compute scores. The type of a config names its kernel: all that
/// differs between kernels is overloaded on it, here in a file per kernel of codegen/kernels, and
/// for launches in one of launch/kernels.
namespace attnjit::codegen {

/// attn_fwd.
using ForwardKernel =
    std::variant<kernel::ForwardMmaConfig, kernel::ForwardWgmmaConfig,
                 kernel::ForwardSingleTileConfig, kernel::ForwardSharedBiasConfig>;
/// attn_bwd_dkv: dk and dv, and what else the tunables give it.
using DkvKernel =
    std::variant<kernel::BackwardMmaConfig, kernel::DkvWgmmaConfig, kernel::DkvWgmmaD256Config,
                 kernel::BackwardSingleTileConfig, kernel::BackwardSharedBiasConfig>;
/// attn_bwd_dq, with DqMethod::kKernel.
using DqKernel = std::variant<kernel::BackwardMmaConfig, kernel::DqWgmmaConfig,
                              kernel::BackwardSharedBiasConfig>;
/// attn_bwd_dbias, with DbiasMethod::kKernel.
using DbiasKernel = kernel::BackwardMmaConfig;

/// The kernel that `tunables` choose for problems of `family`.
ForwardKernel forward_kernel(const problem::Family& family, const ForwardTunables& tunables);
DkvKernel dkv_kernel(const problem::BackwardFamily& family, const BackwardTunables& tunables);
DqKernel dq_kernel(const problem::BackwardFamily& family, const BackwardTunables& tunables);
DbiasKernel dbias_kernel(const problem::BackwardFamily& family, const BackwardTunables& tunables);

/// The properties of attn_fwd that its launch and the kernels beside it depend on.
struct ForwardFacts {
  int block_q = 0, block_kv = 0;
  int pack_gqa_heads = 1;
  bool scale_first = false;
  bool persistent = false;   ///< thread blocks stay on their SMs and share out the blocks of rows
  bool plans_work = false;   ///< the same by a counter
  bool single_tile = false;  ///< the same of planes, by kernel::PlaneOrder
  bool shared_bias = false;  ///< the same of strips, by kernel::ForwardSharedBiasParams
};
ForwardFacts facts(const ForwardKernel& kernel);

/// The same of attn_bwd_dkv.
struct DkvFacts {
  int block_q = 0, block_kv = 0;
  bool scale_first = false;
  float probability_scale = 1;
  bool keys_in_rows = false;  ///< of its scores: it reads the bits of a mask by keys
  /// The copy engine brings lse and delta, as kernel::kRowBf16x3Bytes a row, and takes sums of
  /// dbias, both in whole tiles.
  bool whole_tiles = false;
  bool persistent = false;  ///< as ForwardFacts
  /// It begins with the last queries, takes heads abreast and sets sums of dq to zero where its
  /// parameters say so.
  bool takes_orders = false;
  /// Work tiles of all keys take the first share of split queries, then the next one.
  bool splits_last = false;
  kernel::DqOrder dq_order = kernel::DqOrder::kAny;
  /// Thread blocks share out planes, by kernel::BiasPlanes, and compute all gradients of each.
  bool single_tile = false;
  /// Thread blocks walk over the planes that share one of dbias, by kernel::BiasPlanes, and so do
  /// those of attn_bwd_dq, which add up dbias.
  bool shared_bias = false;
  bool reads_out = false;  ///< computes delta itself, so that no kernel ahead prepares rows

  /// Whether the first keys store their share of dq and others wait for them.
  bool orders_dq() const { return dq_order != kernel::DqOrder::kAny; }
};
DkvFacts facts(const DkvKernel& kernel);

/// Whether a kernel multiplies by wgmma, whose products a compiler may serialise.
constexpr bool multiplies_by_wgmma(const kernel::ForwardMmaConfig&) { return false; }
constexpr bool multiplies_by_wgmma(const kernel::BackwardMmaConfig&) { return false; }
constexpr bool multiplies_by_wgmma(const kernel::ForwardSingleTileConfig&) { return false; }
constexpr bool multiplies_by_wgmma(const kernel::BackwardSingleTileConfig&) { return false; }
constexpr bool multiplies_by_wgmma(const kernel::BackwardSharedBiasConfig&) { return false; }
constexpr bool multiplies_by_wgmma(const auto&) { return true; }

/// Takes ForwardParams, or by its kernel ForwardWgmmaParams, ForwardSingleTileParams or
/// ForwardSharedBiasParams, and the parameters of features(family, kForward).
Source render_forward(const problem::Family& family, const ForwardTunables& tunables,
                      const TemplateSet& templates);
/// Takes BackwardParams, or DkvWgmmaParams by its kernel, BiasGradParams where dbias_in_dkv(), and
/// the parameters of features(family.scores, kBackward); with Path::kSingleTile
/// BackwardSingleTileParams, BiasPlanes, BiasGradParams and those; with Path::kSharedBias
/// BackwardParams in place of the first.
Source render_dkv(const problem::BackwardFamily& family, const BackwardTunables& tunables,
                  const TemplateSet& templates);
/// Takes BackwardParams, or DqWgmmaParams by its kernel, BiasPlanes and BiasGradParams with
/// Path::kSharedBias, and the features' parameters.
Source render_dq(const problem::BackwardFamily& family, const BackwardTunables& tunables,
                 const TemplateSet& templates);
/// Takes BackwardParams, BiasPlanes, BiasGradParams and the features' parameters.
Source render_dbias(const problem::BackwardFamily& family, const BackwardTunables& tunables,
                    const TemplateSet& templates);

/// Whether scores pass through attn_bwd_dkv on their way to dbias.
bool dbias_in_dkv(DbiasMethod method);

}  // namespace attnjit::codegen
