#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "allocator.hpp"
#include "attnjit.h"
#include "device_tensor.hpp"
#include "object.hpp"

namespace attnjit::python {

/// All that calls share. It is kept until the process ends: other threads may still be in a call
/// when Python takes its modules apart.
struct Shared {
  explicit Shared(Allocator made_by) : allocator(std::move(made_by)) {}

  Allocator allocator;
  TensorReader reader;
  attnjit_context* context = nullptr;
  std::shared_ptr<const cuda::Driver> driver;  // null until a call needs it, and without a GPU
  std::map<std::string, const attnjit_expression*, std::less<>> expressions;  // by their texts
};

/// The content of a capsule of create_context(). Raises ValueError for another capsule.
Shared& shared(PyObject* capsule);

/// The driver, or null: the library then says what is missing, after it has checked the arguments.
const cuda::Driver* driver(Shared& state);

/// The handle of an expression, made once per text; null for null. Needs the GIL.
const attnjit_expression* expression(Shared& state, const char* text);

/// Raises the Python exception that stands for a status other than ATTNJIT_OK.
void check(attnjit_status status);

// Functions of the module; module.cpp says their arguments.
PyObject* create_context(PyObject*, PyObject* const* values, Py_ssize_t count);
PyObject* counters(PyObject*, PyObject* capsule);

}  // namespace attnjit::python
