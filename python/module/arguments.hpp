#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "attnjit.h"
#include "context.hpp"
#include "device_tensor.hpp"
#include "object.hpp"

namespace attnjit::python {

/// The positional arguments of a call, taken one after the other.
class Arguments {
 public:
  /// Raises TypeError unless `count` is `expected`.
  Arguments(PyObject* const* values, Py_ssize_t count, Py_ssize_t expected);

  PyObject* next() { return *next_++; }
  bool flag();
  /// None stands for what `otherwise()` returns.
  template <class Function>
  bool flag_or(Function otherwise) {
    return is_none(*next_) ? (++next_, otherwise()) : flag();
  }

 private:
  PyObject* const* next_;
};

/// The arguments of attnjit_forward(). It begins with the inputs of a call; the results are added.
/// Objects that it reads must outlive it. Its members point at one another.
class ForwardCall {
 public:
  static constexpr Py_ssize_t kNumArguments = 20;

  /// From (q, k, v, mask, bias, sink, alibi_slopes, seqlens_q, seqlens_kv, cu_seqlens_q,
  /// cu_seqlens_kv, block_table, tail_mask, block_indices, block_counts, full_block_indices,
  /// full_block_counts, key_indices, read, scalars). Absent tensors are None, `read` is a
  /// sequence of them; scalars are those of attnjit/_call.py. q, k and v are copied where the
  /// elements of a row are no neighbours.
  ForwardCall(Arguments& arguments, Shared& state);
  ForwardCall(const ForwardCall&) = delete;
  ForwardCall& operator=(const ForwardCall&) = delete;

  /// The output, lse and the largest scores of each row and of each head (or None for none).
  void set_results(PyObject* out, PyObject* lse, PyObject* row_max, PyObject* max_logits);
  /// The first two, for inputs of a backward: `out` may be copied.
  void set_known_results(PyObject* out, PyObject* lse);
  /// The stream as an integer, or None for the one on which q's framework works now.
  void set_stream(PyObject* stream);

  const attnjit_forward_args& args() const { return args_; }
  /// The sizes of the bias's own axes, where there is one.
  std::span<const std::int64_t> bias_shape() const {
    return std::span(bias_.shape).last(static_cast<std::size_t>(bias_ndim_));
  }
  std::int32_t device() const { return device_; }
  CUstream_st* stream() const { return stream_; }

  /// Reads a tensor. Raises ValueError where it is not on q's device.
  DeviceTensor read(PyObject* object, const char* name) const;
  /// As read(), of four axes.
  attnjit_tensor read_whole(PyObject* object, const char* name) const;
  /// As read_whole(); `copy` keeps a copy in which the elements of a row are neighbours.
  attnjit_tensor read_rows(PyObject* object, const char* name, Object& copy) const;
  /// The address of a contiguous (batch, head, query) fp32 tensor; null for None.
  float* read_row_numbers(PyObject* object, const char* name) const;

 private:
  /// Batch elements or packed sequences.
  std::int64_t batch_size() const {
    return args_.num_sequences > 0 ? args_.num_sequences : args_.q.shape[0];
  }
  /// A contiguous int32 tensor of a number for each.
  const std::int32_t* read_lengths(PyObject* object, const char* name) const;
  /// One of a number more than sequences are packed, which it tells.
  const std::int32_t* read_begins(PyObject* object, const char* name);
  /// Sets the pages of each: int32, with neighbours in a row.
  void set_block_table(PyObject* object);
  /// `operands` are the tensors of those that the scalars name, or None. Returns the member of a
  /// prepared mask, or None.
  PyObject* set_scalars(PyObject* scalars, PyObject* operands, Shared& state);
  void set_orders(PyObject* orders);
  /// The tensors of lists of blocks, of which the scalars tell the sizes.
  void read_blocks(Arguments& arguments);
  void set_block_sizes(PyObject* sizes);
  void set_key_indices(PyObject* object);
  void set_operands(PyObject* names, PyObject* tensors);
  /// A mask, or the memory of a prepared one that `prepared` tells of.
  void set_mask(PyObject* mask, PyObject* prepared);

  TensorReader& reader_;
  PyObject* q_object_;
  Object q_copy_, k_copy_, v_copy_, out_copy_;
  attnjit_forward_args args_ = ATTNJIT_FORWARD_ARGS_INIT;
  attnjit_tensor mask_{};
  attnjit_tensor bias_{};
  attnjit_tensor sink_{};
  attnjit_tensor alibi_slopes_{};
  attnjit_tensor tail_mask_{};
  attnjit_prepared_mask prepared_mask_{};
  attnjit_block_lists blocks_ = ATTNJIT_BLOCK_LISTS_INIT;
  attnjit_tensor full_block_indices_{}, full_block_counts_{};
  attnjit_tensor key_indices_{};
  std::vector<attnjit_operand> operands_;
  int bias_ndim_ = 0;
  std::int32_t device_ = 0;
  CUstream_st* stream_ = nullptr;
};

/// The arguments of attnjit_backward(), begun and completed likewise.
class BackwardCall {
 public:
  static constexpr Py_ssize_t kNumArguments = ForwardCall::kNumArguments + 4;

  /// From those of a ForwardCall and (out, lse, dout, dlse). out, dout and dlse are copied where
  /// the library cannot read them as they are.
  BackwardCall(Arguments& arguments, Shared& state);
  BackwardCall(const BackwardCall&) = delete;
  BackwardCall& operator=(const BackwardCall&) = delete;

  /// The gradients; those of the bias and of the sinks are None where they are not wanted.
  void set_results(PyObject* dq, PyObject* dk, PyObject* dv, PyObject* dbias, PyObject* dsink);
  /// Those of the operands that expressions read: None, or a sequence of as many tensors, None for
  /// each that is not wanted.
  void set_read_gradients(PyObject* gradients);
  void set_deterministic(bool deterministic) { args_.deterministic = deterministic ? 1 : 0; }
  void set_stream(PyObject* stream) { forward_.set_stream(stream); }

  const attnjit_backward_args& args() const { return args_; }
  const ForwardCall& forward() const { return forward_; }
  std::int32_t device() const { return forward_.device(); }
  CUstream_st* stream() const { return forward_.stream(); }
  DeviceTensor read(PyObject* object, const char* name) const {
    return forward_.read(object, name);
  }

 private:
  ForwardCall forward_;
  Object dout_copy_, dlse_copy_;
  attnjit_backward_args args_ = ATTNJIT_BACKWARD_ARGS_INIT;
  attnjit_tensor dbias_{};
  attnjit_tensor dsink_{};
  std::vector<attnjit_tensor> read_gradients_;
};

/// The arguments of attnjit_merge_lse(), all of them.
class MergeCall {
 public:
  static constexpr Py_ssize_t kNumArguments = 9;

  /// From (first part, part stride, number of parts, part_lses, carry, carry_lse, out, lse,
  /// stream), where carry, carry_lse, lse and stream may be None.
  MergeCall(Arguments& arguments, TensorReader& reader);
  MergeCall(const MergeCall&) = delete;
  MergeCall& operator=(const MergeCall&) = delete;

  const attnjit_merge_lse_args& args() const { return args_; }
  std::int32_t device() const { return device_; }
  CUstream_st* stream() const { return stream_; }

 private:
  DeviceTensor read(PyObject* object, const char* name) const;
  // Start of a contiguous fp32 tensor of `parts` numbers per row; null for None.
  float* read_lse(PyObject* object, const char* name, std::int64_t parts) const;

  TensorReader& reader_;
  CUstream_st* stream_ = nullptr;
  attnjit_merge_lse_args args_ = ATTNJIT_MERGE_LSE_ARGS_INIT;
  attnjit_tensor carry_{};
  std::int32_t device_ = 0;
};

/// The arguments of attnjit_prepare_mask(), all of them.
class PrepareMaskCall {
 public:
  static constexpr Py_ssize_t kNumArguments = 4;

  /// From (mask, for_backward, memory, stream), where stream may be None.
  PrepareMaskCall(Arguments& arguments, TensorReader& reader);
  PrepareMaskCall(const PrepareMaskCall&) = delete;
  PrepareMaskCall& operator=(const PrepareMaskCall&) = delete;

  const attnjit_prepare_mask_args& args() const { return args_; }
  std::int64_t memory_bytes() const { return memory_bytes_; }
  std::int32_t device() const { return device_; }
  CUstream_st* stream() const { return stream_; }

 private:
  CUstream_st* stream_ = nullptr;
  attnjit_prepare_mask_args args_ = ATTNJIT_PREPARE_MASK_ARGS_INIT;
  std::int64_t memory_bytes_ = 0;
  std::int32_t device_ = 0;
};

}  // namespace attnjit::python
