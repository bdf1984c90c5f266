#include "arguments.hpp"

#include <algorithm>
#include <cstdio>

#include "tensor_arguments.hpp"

namespace attnjit::python {

Arguments::Arguments(PyObject* const* values, Py_ssize_t count, Py_ssize_t expected)
    : next_(values) {
  if (count != expected) raise(PyExc_TypeError, "expected %zd arguments, not %zd", expected, count);
}

bool Arguments::flag() {
  const int value = PyObject_IsTrue(next());
  if (value < 0) throw PythonError{};
  return value != 0;
}

ForwardCall::ForwardCall(Arguments& arguments, Shared& state)
    : reader_(state.reader), q_object_(arguments.next()) {
  const DeviceTensor q = reader_.read_rows(q_object_, "q", q_copy_);
  device_ = q.device;
  args_.q = whole(q, "q");
  args_.k = read_rows(arguments.next(), "k", k_copy_);
  args_.v = read_rows(arguments.next(), "v", v_copy_);
  PyObject* const mask = arguments.next();
  if (PyObject* bias = arguments.next(); !is_none(bias)) {
    const DeviceTensor tensor = read(bias, "bias");
    bias_ = broadcast(tensor, "bias");
    bias_ndim_ = tensor.ndim;
    args_.bias = &bias_;
  }
  if (PyObject* sink = arguments.next(); !is_none(sink)) {
    sink_ = per_head(read(sink, "sink"), "sink");
    args_.sink = &sink_;
  }
  if (PyObject* alibi = arguments.next(); !is_none(alibi)) {
    alibi_slopes_ = slopes(read(alibi, "alibi_slopes"), "alibi_slopes");
    args_.alibi_slopes = &alibi_slopes_;
  }
  PyObject* const seqlens_q = arguments.next();
  PyObject* const seqlens_kv = arguments.next();
  args_.cu_seqlens_q = read_begins(arguments.next(), "cu_seqlens_q");
  args_.cu_seqlens_kv = read_begins(arguments.next(), "cu_seqlens_kv");
  args_.seqlens_q = read_lengths(seqlens_q, "seqlens_q");
  args_.seqlens_kv = read_lengths(seqlens_kv, "seqlens_kv");
  set_block_table(arguments.next());
  if (PyObject* tail = arguments.next(); !is_none(tail)) {
    tail_mask_ = broadcast(read(tail, "tail_mask"), "tail_mask");
    args_.tail_mask = &tail_mask_;
  }
  read_blocks(arguments);
  set_key_indices(arguments.next());
  PyObject* const operands = arguments.next();
  set_mask(mask, set_scalars(arguments.next(), operands, state));
}

void ForwardCall::set_block_table(PyObject* object) {
  if (is_none(object)) return;
  const DeviceTensor table = read(object, "block_table");
  if (!is(table.dtype, dlpack::kInt, 32)) raise_dtype("block_table", table.dtype, "int32");
  const std::int64_t batch = batch_size();
  const bool apart = batch > 0 && table.shape[1] > 1 && table.strides[1] != 1;
  if (table.ndim != 2 || table.shape[0] != batch || table.shape[1] < 1 || apart) {
    raise(PyExc_ValueError,
          "block_table: expected (batch or sequences, pages), a page or more, with neighbours in a "
          "row");
  }
  args_.block_table = static_cast<const std::int32_t*>(table.data);
  args_.max_pages = table.shape[1];
  args_.block_table_stride = batch <= 1 ? table.shape[1] : table.strides[0];
}

void ForwardCall::read_blocks(Arguments& arguments) {
  const auto lists = [&](PyObject* object, const char* name, int axes) {
    const DeviceTensor tensor = read(object, name);
    if (!is(tensor.dtype, dlpack::kInt, 32)) raise_dtype(name, tensor.dtype, "int32");
    if (tensor.ndim != axes) {
      raise(PyExc_ValueError, "%s: it has %d axes; expected %d", name, tensor.ndim, axes);
    }
    attnjit_tensor result{tensor.data, ATTNJIT_INT32, {1, 1, 1, 1}, {0, 0, 0, 0}};
    std::copy_n(tensor.shape, axes, result.shape);
    std::copy_n(tensor.strides, axes, result.strides);
    return result;
  };
  PyObject* const indices = arguments.next();
  PyObject* const counts = arguments.next();
  PyObject* const full_indices = arguments.next();
  PyObject* const full_counts = arguments.next();
  if (is_none(indices) && is_none(counts)) return;
  blocks_.indices = lists(indices, "blocks.indices", kAxes);
  blocks_.counts = lists(counts, "blocks.counts", kAxes - 1);
  if (!is_none(full_indices)) {
    full_block_indices_ = lists(full_indices, "blocks.full_indices", kAxes);
    blocks_.full_indices = &full_block_indices_;
  }
  if (!is_none(full_counts)) {
    full_block_counts_ = lists(full_counts, "blocks.full_counts", kAxes - 1);
    blocks_.full_counts = &full_block_counts_;
  }
  args_.blocks = &blocks_;
}

void ForwardCall::set_block_sizes(PyObject* sizes) {
  if (is_none(sizes)) return;
  const Object numbers = checked(PySequence_Tuple(sizes));
  long long rows = 0, keys = 0, num_kv_blocks = 0;
  if (PyArg_ParseTuple(numbers.get(), "LLL", &rows, &keys, &num_kv_blocks) == 0) {
    throw PythonError{};
  }
  blocks_.block_q = rows;
  blocks_.block_kv = keys;
  blocks_.num_kv_blocks = num_kv_blocks;
}

void ForwardCall::set_key_indices(PyObject* object) {
  if (is_none(object)) return;
  const DeviceTensor tensor = read(object, "key_indices");
  const bool wide = is(tensor.dtype, dlpack::kInt, 64);
  if (!wide && !is(tensor.dtype, dlpack::kInt, 32)) {
    raise_dtype("key_indices", tensor.dtype, "int32 or int64");
  }
  if (tensor.ndim != kAxes - 1) {
    raise(PyExc_ValueError, "key_indices: it has %d axes; expected (batch, kv head, keys)",
          tensor.ndim);
  }
  const auto& shape = tensor.shape;
  const auto& strides = tensor.strides;
  key_indices_ = {tensor.data,
                  wide ? ATTNJIT_INT64 : ATTNJIT_INT32,
                  {shape[0], shape[1], 1, shape[2]},
                  {strides[0], strides[1], 0, strides[2]}};
  args_.key_indices = &key_indices_;
}

void ForwardCall::set_mask(PyObject* mask, PyObject* prepared) {
  if (is_none(mask)) return;
  const DeviceTensor tensor = read(mask, "mask");
  if (is_none(prepared)) {
    mask_ = broadcast(tensor, "mask");
    args_.mask = &mask_;
    return;
  }
  prepared_mask_.data = bytes(tensor, "mask");
  const Object numbers = checked(PySequence_Tuple(prepared));
  long long shape[4];
  if (PyArg_ParseTuple(numbers.get(), "LLLLi", &shape[0], &shape[1], &shape[2], &shape[3],
                       &prepared_mask_.for_backward) == 0) {
    throw PythonError{};
  }
  std::ranges::copy(shape, prepared_mask_.shape);
  args_.prepared_mask = &prepared_mask_;
}

PyObject* ForwardCall::set_scalars(PyObject* scalars, PyObject* operands, Shared& state) {
  PyObject* scale = nullptr;
  PyObject* prepared = nullptr;
  PyObject* orders = nullptr;
  const char* score = nullptr;
  const char* keep = nullptr;
  PyObject* operand_names = nullptr;
  PyObject* block_sizes = nullptr;
  int causal = 0;
  int diagonal = 0;
  long long left = 0;
  long long right = 0;
  long long diagonal_offset = 0;
  long long row_offset = 0;
  long long key_offset = 0;
  if (!PyTuple_Check(scalars)) raise(PyExc_TypeError, "scalars: expected a tuple, not %R", scalars);
  if (PyArg_ParseTuple(scalars, "OpiLLfLOOzzOLLO", &scale, &causal, &diagonal, &left, &right,
                       &args_.softcap, &diagonal_offset, &prepared, &orders, &score, &keep,
                       &operand_names, &row_offset, &key_offset, &block_sizes) == 0) {
    throw PythonError{};
  }
  set_orders(orders);
  set_block_sizes(block_sizes);
  set_operands(operand_names, operands);
  args_.score = expression(state, score);
  args_.keep = expression(state, keep);
  if (!is_none(scale)) {
    args_.scale = static_cast<float>(PyFloat_AsDouble(scale));
    if (PyErr_Occurred() != nullptr) throw PythonError{};
    args_.has_scale = 1;
  }
  args_.causal = causal;
  args_.diagonal = diagonal;
  args_.window_left = left;
  args_.window_right = right;
  args_.diagonal_offset = diagonal_offset;
  args_.row_offset = row_offset;
  args_.key_offset = key_offset;
  args_.has_window = left != -1 || right != -1 ? 1 : 0;
  return prepared;
}

void ForwardCall::set_orders(PyObject* orders) {
  if (is_none(orders)) return;
  const Object numbers = checked(PySequence_Tuple(orders));
  long long of_mask[2], of_bias[2];
  if (PyArg_ParseTuple(numbers.get(), "LLLL", &of_mask[0], &of_mask[1], &of_bias[0], &of_bias[1]) ==
      0) {
    throw PythonError{};
  }
  args_.mask_inner = of_mask[0];
  args_.mask_cycle = of_mask[1];
  args_.bias_inner = of_bias[0];
  args_.bias_cycle = of_bias[1];
}

void ForwardCall::set_operands(PyObject* names, PyObject* tensors) {
  if (is_none(tensors)) return;
  const Object name_list = checked(PySequence_Tuple(names));
  const Object tensor_list = checked(PySequence_Tuple(tensors));
  const Py_ssize_t count = PyTuple_Size(tensor_list.get());
  if (count != PyTuple_Size(name_list.get())) {
    raise(PyExc_ValueError, "operands: %zd names and %zd tensors", PyTuple_Size(name_list.get()),
          count);
  }
  operands_.reserve(static_cast<std::size_t>(count));
  for (Py_ssize_t n = 0; n < count; ++n) {
    // The text stays with its object, which the caller's sequence keeps.
    const char* const name = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(name_list.get(), n), nullptr);
    if (name == nullptr) throw PythonError{};
    operands_.push_back(operand(read(PyTuple_GetItem(tensor_list.get(), n), name), name));
  }
  args_.operands = operands_.data();
  args_.num_operands = count;
}

void ForwardCall::set_results(PyObject* out, PyObject* lse, PyObject* row_max,
                              PyObject* max_logits) {
  args_.out = read_whole(out, "out");
  args_.lse = read_row_numbers(lse, "lse");
  args_.row_max = read_row_numbers(row_max, "row_max");
  if (is_none(max_logits)) return;
  args_.max_logits =
      static_cast<float*>(array(read(max_logits, "max_logits"), "max_logits", dlpack::kFloat,
                                {&args_.q.shape[1], 1}, "(heads of q,)"));
}

void ForwardCall::set_known_results(PyObject* out, PyObject* lse) {
  args_.out = read_rows(out, "out", out_copy_);
  args_.lse = read_row_numbers(lse, "lse");
}

void ForwardCall::set_stream(PyObject* stream) {
  stream_ = stream_of(reader_, stream, q_object_, device_);
}

DeviceTensor ForwardCall::read(PyObject* object, const char* name) const {
  const DeviceTensor tensor = reader_.read(object, name);
  check_device(tensor, name, device_);
  return tensor;
}

attnjit_tensor ForwardCall::read_whole(PyObject* object, const char* name) const {
  return whole(read(object, name), name);
}

attnjit_tensor ForwardCall::read_rows(PyObject* object, const char* name, Object& copy) const {
  const DeviceTensor tensor = reader_.read_rows(object, name, copy);
  check_device(tensor, name, device_);
  return whole(tensor, name);
}

float* ForwardCall::read_row_numbers(PyObject* object, const char* name) const {
  if (is_none(object)) return nullptr;
  return static_cast<float*>(array(read(object, name), name, dlpack::kFloat, {args_.q.shape, 3},
                                   "(batch, heads of q, length of q)"));
}

const std::int32_t* ForwardCall::read_lengths(PyObject* object, const char* name) const {
  if (is_none(object)) return nullptr;
  const std::int64_t batch = batch_size();
  return static_cast<const std::int32_t*>(
      array(read(object, name), name, dlpack::kInt, {&batch, 1}, "(batch,)"));
}

const std::int32_t* ForwardCall::read_begins(PyObject* object, const char* name) {
  if (is_none(object)) return nullptr;
  const DeviceTensor tensor = read(object, name);
  const std::int64_t size = tensor.ndim == 1 ? tensor.shape[0] : 0;
  if (size < 2 || (args_.num_sequences > 0 && size != args_.num_sequences + 1)) {
    raise(PyExc_ValueError,
          "%s: expected (sequences + 1,), two numbers or more and as many as the other", name);
  }
  args_.num_sequences = size - 1;
  return static_cast<const std::int32_t*>(
      array(tensor, name, dlpack::kInt, {&size, 1}, "(sequences + 1,)"));
}

BackwardCall::BackwardCall(Arguments& arguments, Shared& state) : forward_(arguments, state) {
  args_.forward = &forward_.args();
  PyObject* const out = arguments.next();
  forward_.set_known_results(out, arguments.next());
  args_.dout = forward_.read_rows(arguments.next(), "dout", dout_copy_);
  PyObject* const dlse = state.reader.contiguous(arguments.next(), "dlse", dlse_copy_);
  args_.dlse = forward_.read_row_numbers(dlse, "dlse");
}

void BackwardCall::set_read_gradients(PyObject* gradients) {
  if (is_none(gradients)) return;
  const Object list = checked(PySequence_Tuple(gradients));
  const Py_ssize_t count = PyTuple_Size(list.get());
  const attnjit_forward_args& inputs = forward_.args();
  if (count != inputs.num_operands) {
    raise(PyExc_ValueError, "read: %lld tensors and %zd gradients",
          static_cast<long long>(inputs.num_operands), count);
  }
  for (Py_ssize_t n = 0; n < count; ++n) {
    PyObject* const gradient = PyTuple_GetItem(list.get(), n);
    const char* const name = inputs.operands[n].name;
    read_gradients_.push_back(is_none(gradient) ? attnjit_tensor{}
                                                : operand(read(gradient, name), name).tensor);
  }
  args_.operand_gradients = read_gradients_.data();
}

void BackwardCall::set_results(PyObject* dq, PyObject* dk, PyObject* dv, PyObject* dbias,
                               PyObject* dsink) {
  args_.dq = forward_.read_whole(dq, "dq");
  args_.dk = forward_.read_whole(dk, "dk");
  args_.dv = forward_.read_whole(dv, "dv");
  if (!is_none(dbias)) {
    dbias_ = broadcast(forward_.read(dbias, "dbias"), "dbias");
    args_.dbias = &dbias_;
  }
  if (!is_none(dsink)) {
    dsink_ = per_head(forward_.read(dsink, "dsink"), "dsink");
    args_.dsink = &dsink_;
  }
}

}  // namespace attnjit::python
