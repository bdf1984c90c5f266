#include "arguments.hpp"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <numeric>

namespace attnjit::python {
namespace {

constexpr int kAxes = 4;

[[noreturn]] void raise_dtype(const char* name, dlpack::DataType dtype, const char* expected) {
  const char* const kinds[] = {"int", "uint", "float", "opaque", "bfloat", "complex", "bool"};
  const char* const kind =
      dtype.code < std::size(kinds) ? kinds[dtype.code] : "float8 or narrower, ";
  raise(PyExc_TypeError, "%s: dtype is %s%d; expected %s", name, kind, int{dtype.bits}, expected);
}

bool is(dlpack::DataType dtype, dlpack::Code code, int bits) {
  return dtype.code == code && dtype.bits == bits && dtype.lanes == 1;
}

struct Dtype {
  dlpack::Code code;
  int bits;
  std::int32_t number;  // of the C API
};

// One of the dtypes that all tensors may have, or `another`.
std::int32_t dtype_of(const char* name, dlpack::DataType dtype, Dtype another,
                      const char* expected) {
  for (const Dtype& each :
       {Dtype{dlpack::kBfloat, 16, ATTNJIT_BFLOAT16}, Dtype{dlpack::kFloat, 16, ATTNJIT_FLOAT16},
        Dtype{dlpack::kFloat, 32, ATTNJIT_FLOAT32}, Dtype{dlpack::kBool, 8, ATTNJIT_BOOL},
        another}) {
    if (is(dtype, each.code, each.bits)) return each.number;
  }
  raise_dtype(name, dtype, expected);
}

std::int32_t attnjit_dtype(const char* name, dlpack::DataType dtype) {
  return dtype_of(name, dtype, {dlpack::kUInt, 8, ATTNJIT_BOOL},
                  "bfloat16, float16, float32 or bool");
}

std::int32_t operand_dtype(const char* name, dlpack::DataType dtype) {
  return dtype_of(name, dtype, {dlpack::kInt, 32, ATTNJIT_INT32},
                  "bfloat16, float16, float32, int32 or bool");
}

void check_device(const DeviceTensor& tensor, const char* name, std::int32_t device) {
  if (tensor.device == device) return;
  raise(PyExc_ValueError, "%s: it is on cuda:%d; q is on cuda:%d", name, int{tensor.device},
        int{device});
}

// A tensor of four axes, or of fewer that broadcast over the first ones.
attnjit_tensor broadcast(const DeviceTensor& tensor, const char* name) {
  attnjit_tensor result{tensor.data, attnjit_dtype(name, tensor.dtype), {1, 1, 1, 1}, {0, 0, 0, 0}};
  const int absent = kAxes - tensor.ndim;
  std::copy_n(tensor.shape, tensor.ndim, result.shape + absent);
  std::copy_n(tensor.strides, tensor.ndim, result.strides + absent);
  return result;
}

// A tensor that expressions read: its axes are the first ones.
attnjit_operand operand(const DeviceTensor& tensor, const char* name) {
  attnjit_operand result = ATTNJIT_OPERAND_INIT;
  result.name = name;
  result.rank = tensor.ndim;
  result.tensor = {tensor.data, operand_dtype(name, tensor.dtype), {1, 1, 1, 1}, {0, 0, 0, 0}};
  std::copy_n(tensor.shape, tensor.ndim, result.tensor.shape);
  std::copy_n(tensor.strides, tensor.ndim, result.tensor.strides);
  return result;
}

// A tensor of one axis, over the heads of q.
attnjit_tensor per_head(const DeviceTensor& tensor, const char* name) {
  if (tensor.ndim != 1) {
    raise(PyExc_ValueError, "%s: it has %d axes; expected (heads of q,)", name, tensor.ndim);
  }
  return {tensor.data,
          attnjit_dtype(name, tensor.dtype),
          {1, tensor.shape[0], 1, 1},
          {0, tensor.strides[0], 0, 0}};
}

// Slopes of ALiBi: over the heads of q, and before that over its batch or not.
attnjit_tensor slopes(const DeviceTensor& tensor, const char* name) {
  if (tensor.ndim == 1) return per_head(tensor, name);
  if (tensor.ndim != 2) {
    raise(PyExc_ValueError, "%s: it has %d axes; expected (heads of q,) or (batch, heads of q)",
          name, tensor.ndim);
  }
  return {tensor.data,
          attnjit_dtype(name, tensor.dtype),
          {tensor.shape[0], tensor.shape[1], 1, 1},
          {tensor.strides[0], tensor.strides[1], 0, 0}};
}

attnjit_tensor whole(const DeviceTensor& tensor, const char* name) {
  if (tensor.ndim != kAxes) {
    raise(PyExc_ValueError, "%s: it has %d axes; expected (batch, head, sequence, feature)", name,
          tensor.ndim);
  }
  return broadcast(tensor, name);
}

// Where the elements of a contiguous tensor begin that the C API takes as a pointer.
void* array(const DeviceTensor& tensor, const char* name, dlpack::Code code,
            std::span<const std::int64_t> shape, const char* shape_in_words) {
  if (!is(tensor.dtype, code, 32)) {
    raise_dtype(name, tensor.dtype, code == dlpack::kInt ? "int32" : "float32");
  }
  if (!std::ranges::equal(std::span(tensor.shape, static_cast<std::size_t>(tensor.ndim)), shape) ||
      !is_contiguous(tensor)) {
    raise(PyExc_ValueError, "%s: expected a contiguous tensor of shape %s", name, shape_in_words);
  }
  return tensor.data;
}

// The address of a contiguous tensor of bytes.
void* bytes(const DeviceTensor& tensor, const char* name) {
  if (!is(tensor.dtype, dlpack::kUInt, 8)) raise_dtype(name, tensor.dtype, "uint8");
  if (tensor.ndim != 1 || !is_contiguous(tensor)) {
    raise(PyExc_ValueError, "%s: expected contiguous memory of a prepared mask, (bytes,)", name);
  }
  return tensor.data;
}

// `stream` as an integer, or None for the one on which the framework of `tensor` works now.
CUstream_st* stream_of(TensorReader& reader, PyObject* stream, PyObject* tensor,
                       std::int32_t device) {
  void* const handle =
      is_none(stream) ? reader.current_stream(tensor, device) : PyLong_AsVoidPtr(stream);
  if (PyErr_Occurred() != nullptr) throw PythonError{};
  return static_cast<CUstream_st*>(handle);
}

}  // namespace

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

MergeCall::MergeCall(Arguments& arguments, TensorReader& reader) : reader_(reader) {
  PyObject* const parts_object = arguments.next();
  const DeviceTensor parts = reader.read(parts_object, "parts");
  device_ = parts.device;
  args_.parts = whole(parts, "parts");
  args_.part_stride = PyLong_AsLongLong(arguments.next());
  args_.num_parts = PyLong_AsLongLong(arguments.next());
  if (PyErr_Occurred() != nullptr) throw PythonError{};
  args_.part_lses = read_lse(arguments.next(), "part_lses", args_.num_parts);
  if (PyObject* carry = arguments.next(); !is_none(carry)) {
    carry_ = whole(read(carry, "carry"), "carry");
    args_.carry = &carry_;
  }
  args_.carry_lse = read_lse(arguments.next(), "carry_lse", 1);
  args_.out = whole(read(arguments.next(), "out"), "out");
  args_.lse = read_lse(arguments.next(), "lse", 1);
  stream_ = stream_of(reader, arguments.next(), parts_object, device_);
}

PrepareMaskCall::PrepareMaskCall(Arguments& arguments, TensorReader& reader) {
  PyObject* const mask_object = arguments.next();
  const DeviceTensor mask = reader.read(mask_object, "mask");
  device_ = mask.device;
  args_.mask = broadcast(mask, "mask");
  args_.for_backward = arguments.flag() ? 1 : 0;
  const DeviceTensor memory = reader.read(arguments.next(), "memory");
  if (memory.device != device_) {
    raise(PyExc_ValueError, "memory: it is on cuda:%d; the mask is on cuda:%d", int{memory.device},
          int{device_});
  }
  args_.memory = bytes(memory, "memory");
  memory_bytes_ = memory.shape[0];
  stream_ = stream_of(reader, arguments.next(), mask_object, device_);
}

DeviceTensor MergeCall::read(PyObject* object, const char* name) const {
  const DeviceTensor tensor = reader_.read(object, name);
  if (tensor.device != device_) {
    raise(PyExc_ValueError, "%s: it is on cuda:%d; the parts are on cuda:%d", name,
          int{tensor.device}, int{device_});
  }
  return tensor;
}

float* MergeCall::read_lse(PyObject* object, const char* name, std::int64_t parts) const {
  if (is_none(object)) return nullptr;
  const DeviceTensor tensor = read(object, name);
  if (!is(tensor.dtype, dlpack::kFloat, 32)) raise_dtype(name, tensor.dtype, "float32");
  const std::int64_t* const shape = args_.parts.shape;
  const std::int64_t rows = shape[0] * shape[1] * shape[2];
  const std::int64_t elements = std::accumulate(tensor.shape, tensor.shape + tensor.ndim,
                                                std::int64_t{1}, std::multiplies<>());
  if (elements != parts * rows || !is_contiguous(tensor)) {
    raise(PyExc_ValueError, "%s: expected a contiguous tensor with an element per row of %s", name,
          parts == 1 ? "out" : "each part");
  }
  return static_cast<float*>(tensor.data);
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
