#pragma once
// Python's limited API: a module built with it serves every Python from 3.10 on.
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030A0000
#include <Python.h>

#include <exception>
#include <memory>
#include <new>

namespace attnjit::python {

struct DropReference {
  void operator()(PyObject* object) const { Py_DECREF(object); }
};

/// A strong reference.
using Object = std::unique_ptr<PyObject, DropReference>;

/// Thrown where a Python exception has been set; functions of the module answer it with null.
struct PythonError {};

/// Sets an exception of `type` with a message made as PyErr_Format() makes it, and throws
/// PythonError.
template <class... Values>
[[noreturn]] void raise(PyObject* type, const char* format, Values... values) {
  PyErr_Format(type, format, values...);
  throw PythonError{};
}

/// A new reference as an Object. Throws PythonError for null.
inline Object checked(PyObject* object) {
  if (object == nullptr) throw PythonError{};
  return Object(object);
}

/// A strong reference to an object that someone else holds.
inline Object new_reference(PyObject* object) {
  Py_INCREF(object);
  return Object(object);
}

/// Calls `body` and turns what it throws into a Python exception.
template <class Body>
PyObject* guarded(Body body) noexcept {
  try {
    return body();
  } catch (const PythonError&) {
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

inline bool is_none(PyObject* object) { return Py_IsNone(object) != 0; }

/// Lets other Python threads run while it lives.
class WithoutGil {
 public:
  WithoutGil() : state_(PyEval_SaveThread()) {}
  ~WithoutGil() { PyEval_RestoreThread(state_); }
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* state_;
};

}  // namespace attnjit::python
