#pragma once
#include <cstdint>
#include <optional>

#include "expr/expr.hpp"

namespace attnjit::expr {

/// The operands that calls over selected keys have besides those of the caller. Blanks in them: no
/// text has these names.
inline constexpr const char* kSelectedKeys = "selected keys";  ///< int [b, g, j], -1 where none is
inline constexpr const char* kKeyNumbers = "numbers of keys";  ///< int [b], of all keys
inline constexpr const char* kMaskOfKeys = "mask of keys";     ///< bool [b, h or g, i, key]
inline constexpr const char* kBiasOfKeys = "bias of keys";     ///< float [b, h or g, i, key]
inline constexpr const char* kSlopesOfHeads = "slopes of heads";  ///< float [b, h]

/// A mask or bias: the heads that it differs over, kHeadQ or kHeadKv, and whether it differs from
/// row to row and from key to key.
struct KeyedOperand {
  Index head = Index::kHeadKv;
  bool per_row = true, per_key = true;
};

/// The parts of a call that depend on which key a pair has. `score` and `keep` are simplified;
/// absent, they are s and true.
struct KeyTerms {
  std::optional<Expr> score, keep;
  std::optional<std::int64_t> left, right;  ///< i + off - left <= key <= i + off + right
  bool bottom_right = false;                ///< off counts from the last key
  std::optional<KeyedOperand> mask, bias;
  bool has_slopes = false;     ///< -slope * |i + off - key| is added to the score
  float softcap = 0;           ///< of the score ahead of bias and slopes; 0: none
  bool all_name_keys = false;  ///< no selected key is -1, or the kernel knows
};

/// The same over keys j that are selected ones: the terms have the key's own number in the place of
/// j, and the number of all keys in that of Lk. Throws Error(kInvalidProblem) where there are too
/// many operands. Nothing where all keys are kept.
std::optional<Expr> keep_of_selected(const KeyTerms& terms);
/// Whether one of them reads the number of all keys.
bool read_num_keys(const KeyTerms& terms);
/// Nothing where neither a score nor a bias nor slopes are. Only beside the latter two it has the
/// softcap inside.
std::optional<Expr> score_of_selected(const KeyTerms& terms);

}  // namespace attnjit::expr
