#pragma once
#include <cstdint>

#include "attnjit/backward.hpp"
#include "attnjit/backward/scatter_keys_config.h"
#include "attnjit/prepass/gather_keys_config.h"
#include "codegen/features.hpp"
#include "problem/backward_problem.hpp"

namespace attnjit::launch {

/// The memory of a call over selected keys, as byte offsets: the copies of k and v, their numbers,
/// the number of all keys of each batch element, and in a backward dk and dv of the copies.
struct KeySelectionLayout {
  std::int64_t k = 0, v = 0, selected = 0, key_numbers = 0;
  std::int64_t dk = 0, dv = 0;
  std::int64_t bytes = 0;
};
KeySelectionLayout key_selection_layout(const problem::Problem& problem, codegen::Pass pass);

/// Thread blocks of the kernel that copies the keys.
std::int64_t gather_blocks(const kernel::GatherKeysConfig& config, const problem::Problem& problem);

/// Gives the operands of the call's expressions the numbers of the keys in `memory`, and the kernel
/// that writes these its parameters.
void set_key_selection(const problem::Problem& problem, const ForwardArgs& args, void* memory,
                       const KeySelectionLayout& layout, codegen::FeatureValues& features,
                       kernel::GatherKeysParams& gather);

/// Parameters of the kernel that writes the caller's dk and dv, and its thread blocks.
kernel::ScatterKeysParams scatter_params(const kernel::ScatterKeysConfig& config,
                                         const problem::BackwardProblem& problem,
                                         const BackwardArgs& args, void* memory,
                                         const KeySelectionLayout& layout);
std::int64_t scatter_blocks(const kernel::ScatterKeysConfig& config,
                            const problem::BackwardProblem& problem);

/// The call with the copies in the places of k and v, and of dk and dv.
ForwardArgs over_selected(const ForwardArgs& args, void* memory, const KeySelectionLayout& layout);
BackwardArgs over_selected(const BackwardArgs& args, void* memory,
                           const KeySelectionLayout& layout);

}  // namespace attnjit::launch
