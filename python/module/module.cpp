// The module attnjit._native: the C API of the library for tensors of Python frameworks.
// attnjit/_call.py is its only user.
#include <algorithm>
#include <span>

#include "attnjit.h"
#include "calls.hpp"
#include "context.hpp"
#include "object.hpp"

namespace attnjit::python {
namespace {

// Whether it is None or of exactly one of the types.
bool is(PyObject* object, PyObject* types) {
  auto* const type = reinterpret_cast<PyObject*>(Py_TYPE(object));
  bool found = is_none(object);
  for (Py_ssize_t i = 0; !found && i < PyTuple_Size(types); ++i) {
    found = PyTuple_GetItem(types, i) == type;
  }
  return found;
}

bool each_is(PyObject* objects, PyObject* types) {
  bool found = true;
  for (Py_ssize_t i = 0; found && i < PyTuple_Size(objects); ++i) {
    found = is(PyTuple_GetItem(objects, i), types);
  }
  return found;
}

PyObject* are_plain(PyObject*, PyObject* const* values, Py_ssize_t count) {
  return guarded([&]() -> PyObject* {
    if (count == 0 || !PyTuple_Check(values[0]))
      raise(PyExc_TypeError, "expected a tuple of types");
    const std::span objects(values + 1, values + count);
    const auto is_plain = [types = values[0]](PyObject* object) {
      return PyTuple_Check(object) ? each_is(object, types) : is(object, types);
    };
    return PyBool_FromLong(std::ranges::all_of(objects, is_plain) ? 1 : 0);
  });
}

PyObject* version(PyObject*, PyObject*) { return PyUnicode_FromString(attnjit_version()); }

template <class Function>
PyCFunction as_method(Function* function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

#define ATTNJIT_INPUTS                                                                            \
  "q, k, v, mask, bias, sink, alibi_slopes, seqlens_q, seqlens_kv, cu_seqlens_q, cu_seqlens_kv, " \
  "block_table, tail_mask, block_indices, block_counts, full_block_indices, full_block_counts, "  \
  "key_indices, read, scalars"

PyMethodDef methods[] = {
    {"create_context", as_method(create_context), METH_FASTCALL,
     "create_context(nvrtc_path or None, make, make_on_current or None, dtypes) -> capsule"},
    {"forward", as_method(forward), METH_FASTCALL,
     "forward(context, " ATTNJIT_INPUTS
     ", need_lse, need_max_logits, sequence_major or None) -> (out, lse or None, max_logits or "
     "None)"},
    {"backward", as_method(backward), METH_FASTCALL,
     "backward(context, " ATTNJIT_INPUTS ", out, lse, dout, dlse, need_dbias, need_dsink, "
     "deterministic, gradients of read or None) -> (dq, "
     "dk, dv, dbias or None, dsink or None)"},
    {"enqueue_forward", as_method(enqueue_forward), METH_FASTCALL,
     "enqueue_forward(context, " ATTNJIT_INPUTS ", out, lse, max_logits, stream or None)"},
    {"enqueue_backward", as_method(enqueue_backward), METH_FASTCALL,
     "enqueue_backward(context, " ATTNJIT_INPUTS
     ", out, lse, dout, dlse, deterministic, dq, dk, dv, dbias, dsink, gradients of read, stream "
     "or None)"},
    {"enqueue_merge_lse", as_method(enqueue_merge_lse), METH_FASTCALL,
     "enqueue_merge_lse(context, first part, part_stride, num_parts, part_lses, carry, carry_lse, "
     "out, lse, stream or None)"},
    {"enqueue_prepare_mask", as_method(enqueue_prepare_mask), METH_FASTCALL,
     "enqueue_prepare_mask(context, mask, for_backward, memory, stream or None)"},
    {"explain", as_method(explain), METH_FASTCALL,
     "explain(context, " ATTNJIT_INPUTS ", backward, need_dbias, deterministic) -> JSON"},
    {"are_plain", as_method(are_plain), METH_FASTCALL,
     "are_plain(types, *objects) -> whether each, of a tuple each in it, is None or of exactly one "
     "of the types"},
    {"counters", counters, METH_O, "counters(context) -> dict of what the context did so far"},
    {"version", version, METH_NOARGS, "version() -> the library's version"},
    {nullptr, nullptr, 0, nullptr}};

PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_native", "The C API of attnjit for tensors.", 0,
                          methods};

}  // namespace
}  // namespace attnjit::python

PyMODINIT_FUNC PyInit__native() { return PyModule_Create(&attnjit::python::definition); }
