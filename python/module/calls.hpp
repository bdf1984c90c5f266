#pragma once
#include "object.hpp"

namespace attnjit::python {

// Functions of the module; module.cpp says their arguments.
PyObject* forward(PyObject*, PyObject* const* values, Py_ssize_t count);
PyObject* backward(PyObject*, PyObject* const* values, Py_ssize_t count);
PyObject* enqueue_forward(PyObject*, PyObject* const* values, Py_ssize_t count);
PyObject* enqueue_backward(PyObject*, PyObject* const* values, Py_ssize_t count);
PyObject* enqueue_merge_lse(PyObject*, PyObject* const* values, Py_ssize_t count);
PyObject* enqueue_prepare_mask(PyObject*, PyObject* const* values, Py_ssize_t count);
PyObject* explain(PyObject*, PyObject* const* values, Py_ssize_t count);

}  // namespace attnjit::python
