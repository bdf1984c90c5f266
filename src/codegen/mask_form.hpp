#pragma once
#include "problem/problem.hpp"

namespace attnjit::codegen {

/// The form in which a kernel reads a mask.
enum class MaskForm {
  kNone,       ///< there is no mask, or one that is the same for all keys of a row
  kBits,       ///< converted to bits and classified by tiles, by a kernel before or the caller
  kBytes,      ///< as the caller keeps it: converting it would cost more than it saves
  kPackedRow,  ///< the same, of one row that has the keys of all packed sequences
};

constexpr MaskForm mask_form(const problem::Family& family) {
  if (!problem::varies_over_keys(family.mask)) return MaskForm::kNone;
  if (family.mask_packs_keys) return MaskForm::kPackedRow;
  return family.mask_few_rows ? MaskForm::kBytes : MaskForm::kBits;
}

/// Whether a call converts the mask to bits before other kernels read it.
constexpr bool needs_mask_bits(const problem::Family& family) {
  return mask_form(family) == MaskForm::kBits && !family.mask_prepared;
}

}  // namespace attnjit::codegen
