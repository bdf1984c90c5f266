#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "attnjit/score/alibi_params.h"
#include "attnjit/score/band_params.h"
#include "attnjit/score/batch_groups_params.h"
#include "attnjit/score/bit_mask_params.h"
#include "attnjit/score/byte_mask_params.h"
#include "attnjit/score/expression_params.h"
#include "attnjit/score/operand_params.h"
#include "attnjit/score/packed_sequences_params.h"
#include "attnjit/score/paged_keys_params.h"
#include "attnjit/score/row_max_params.h"
#include "attnjit/score/selected_keys_params.h"
#include "attnjit/score/seqlens_params.h"
#include "attnjit/score/sink_params.h"
#include "attnjit/score/softcap_params.h"
#include "attnjit/score/tail_mask_params.h"
#include "problem/backward_problem.hpp"

/// The features of the scores, in one table: what the stub of a kernel says of each, and which
/// kernel parameter it takes.
namespace attnjit::codegen {

enum class Pass { kForward, kBackward };

/// Rows of the table.
inline constexpr std::size_t kNumFeatures = 21;

/// The kernel parameters of all features of one call. Kernels without groups of batch elements take
/// the base of a grouped one.
struct FeatureValues {
  kernel::PackedSequencesParams sequences{};
  kernel::SeqlensParams seqlens{};
  kernel::SoftcapParams softcap{};
  kernel::Grouped<kernel::OperandParams> bias{};
  kernel::Grouped<kernel::OperandParams> row_mask{};
  kernel::Grouped<kernel::BitMaskParams> bit_mask{};  ///< of a forward
  kernel::Grouped<kernel::ByteMaskParams> byte_mask{};
  kernel::BandParams band{};
  kernel::SinkParams sink{};
  kernel::AlibiParams alibi{};
  kernel::RowMaxParams row_max{};
  kernel::PagedKeysParams pages{};
  kernel::SelectedKeysParams selected{};
  kernel::TailMaskParams tail_mask{};
  kernel::Grouped<kernel::BackwardMaskParams> backward_mask{};
  /// Of families with the expression alone, for clearing them would be part of every call. Kernels
  /// take as many operands as the expressions have.
  kernel::ExpressionParams<kernel::kMaxExpressionOperands> score, keep;
};

/// A row of the table.
struct Feature {
  /// Effect on scores: kernels scale them first for features that transform them or add to them.
  enum class Effect { kDrops, kTransforms, kAdds };

  const char* name;            ///< of the kernel parameter, or nullptr where it takes none
  const char* header;          ///< under templates/attnjit/score
  const char* parameter_type;  ///< nullptr where it takes none
  Effect effect;
  /// The C++ type of the policy in kernels of `family`; empty where they lack the feature.
  std::string (*policy)(const problem::Family& family, Pass pass);
  /// The value of the parameter.
  const void* (*parameter)(const FeatureValues& values);
  /// Tells whether batch elements share planes of the operand in groups; nullptr without an
  /// operand.
  bool problem::Family::*groups_batch = nullptr;
  /// Tells whether the keys of packed sequences lie in one row of the operand.
  bool problem::Family::*packs_keys = nullptr;
  /// The rendered formula that the policy takes, for kernels whose rows have heads of their own or
  /// not; nullptr where it takes none.
  std::string (*formula)(const problem::Family& family, bool packs_heads) = nullptr;
};

/// The features that kernels of `family` have, in the order in which they act and in which the
/// parameters follow one another.
std::vector<const Feature*> features(const problem::Family& family, Pass pass);

/// Writes the address of each parameter of `list` in `values` to `parameters`, which has room for
/// kNumFeatures, and returns their end. Inline, for it is part of every call.
inline void** list_parameters(const std::vector<const Feature*>& list, const FeatureValues& values,
                              void** parameters) {
  for (const Feature* feature : list) {
    // The driver's API takes addresses of what it only reads as void*.
    if (feature->parameter != nullptr)
      *parameters++ = const_cast<void*>(feature->parameter(values));
  }
  return parameters;
}

/// Whether scores are changed by more than an addition, so that gradients have slopes.
bool transforms_scores(const problem::Family& family);

/// Whether it is a score expression.
bool is_score(const Feature& feature);

/// Whether a score expression reads an element for each pair: elements that are loaded one by one.
bool reads_pairs(const problem::Family& family);

/// The cap of the softcap that kernels of `family` apply: of one that a score expression is, which
/// is no other expression then; absent where the call has a number, or none.
std::optional<float> expressed_cap(const problem::Family& family);

/// Whether kernels of either pass scale the scores before the features see them, instead of in the
/// exponent.
bool scales_first(const problem::Family& family);

}  // namespace attnjit::codegen
