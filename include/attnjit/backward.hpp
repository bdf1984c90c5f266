#pragma once
#include <optional>
#include <span>

#include "attnjit/forward.hpp"

namespace attnjit::inline ATTNJIT_CPP_VERSION {

/// The gradients of one attention call by q, k, v and, on request, by the bias and the sinks.
/// docs/reference/semantics.md has the formulas. The caller allocates the outputs, which overlap
/// neither one another nor an input; each has strides of its own and is written completely.
struct BackwardArgs {
  /// The call; out and lse (required) are inputs here, as it wrote them. Its row_max and max_logits
  /// are neither read nor written.
  ForwardArgs forward;
  Tensor dout;  ///< [B, Hq, Lq, Dv], q's dtype, unit stride over Dv, else any, 0 too
  const float* dlse = nullptr;  ///< optional [B, Hq, Lq] fp32, contiguous
  Tensor dq;                    ///< [B, Hq, Lq, D], q's dtype, unit stride over D
  Tensor dk;                    ///< [B, Hkv, Lk, D], q's dtype, unit stride over D
  Tensor dv;                    ///< [B, Hkv, Lk, Dv], q's dtype, unit stride over Dv
  /// Asked for by being there. On each axis full (over batch and heads: as the bias, where that has
  /// several planes, and in its order), or 1 where the bias has size 1 or stride 0; the bias's
  /// dtype or fp32.
  std::optional<Tensor> dbias;
  std::optional<Tensor> dsink;  ///< [1, Hq, 1, 1] fp32; asked for by being there
  /// None, or one for each of forward.operands: its gradient, with its dtype and its sizes on the
  /// axes that it has. Without data it is not asked for. Up to four operands, fp32, fp16 or bf16.
  std::span<const Tensor> operand_gradients;
  bool deterministic = false;  ///< the same inputs give the same bits on every run
};

}  // namespace attnjit::inline ATTNJIT_CPP_VERSION
