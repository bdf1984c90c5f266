#pragma once
#include <vector>

#include "attnjit.h"
#include "inputs.hpp"

namespace attnjit::torch_library {

/// The arguments of attnjit_forward(), of the inputs of an operator and results that it makes.
/// Its members point at one another.
class ForwardCall {
 public:
  /// Throws std::runtime_error for inputs that cannot be read. They are to outlive it.
  ForwardCall(attnjit_context* context, const ForwardInputs& inputs);
  ForwardCall(const ForwardCall&) = delete;
  ForwardCall& operator=(const ForwardCall&) = delete;

  const attnjit_forward_args& args() const { return args_; }
  int device() const { return device_; }

  /// out, lse, row_max and max_logits; empty tensors where they are not wanted.
  const std::vector<Tensor>& results() const { return results_; }

 private:
  void set_tensors(const ForwardInputs& inputs);
  void set_lengths(const ForwardInputs& inputs);
  void set_mask(const ForwardInputs& inputs);
  void set_blocks(const ForwardInputs& inputs);
  void set_expressions(attnjit_context* context, const ForwardInputs& inputs);
  void make_results(const ForwardInputs& inputs);

  int device_;
  Tensor q_, k_, v_;
  std::vector<Tensor> results_;
  attnjit_forward_args args_ = ATTNJIT_FORWARD_ARGS_INIT;
  attnjit_tensor mask_{}, bias_{}, sink_{}, alibi_slopes_{}, tail_mask_{};
  attnjit_prepared_mask prepared_mask_{};
  attnjit_block_lists blocks_ = ATTNJIT_BLOCK_LISTS_INIT;
  attnjit_tensor full_block_indices_{}, full_block_counts_{};
  attnjit_tensor key_indices_{};
  std::vector<attnjit_operand> operands_;
};

}  // namespace attnjit::torch_library
