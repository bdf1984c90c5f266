// The module attnjit._native: the C API of the library for tensors of Python frameworks.
// attnjit/_call.py is its only user.
#include <memory>

#include "arguments.hpp"
#include "attnjit.h"
#include "attnjit/error.hpp"
#include "device_guard.hpp"
#include "object.hpp"

namespace attnjit::python {
namespace {

constexpr const char* kCapsuleName = "attnjit._native.context";

/// All that calls share. It is kept until the process ends: other threads may still be in a call
/// when Python takes its modules apart.
struct Shared {
  attnjit_context* context = nullptr;
  std::shared_ptr<const cuda::Driver> driver;  // null until a call needs it, and without a GPU
  TensorReader reader;
};

Shared& shared(PyObject* capsule) {
  void* const pointer = PyCapsule_GetPointer(capsule, kCapsuleName);
  if (pointer == nullptr) throw PythonError{};
  return *static_cast<Shared*>(pointer);
}

/// The driver, or null: the library then says what is missing, after it has checked the arguments.
const cuda::Driver* driver(Shared& state) {
  try {
    if (state.driver == nullptr) state.driver = cuda::Driver::load();
  } catch (const Error&) {
  }
  return state.driver.get();
}

void check(attnjit_status status) {
  switch (status) {
    case ATTNJIT_OK:
      return;
    case ATTNJIT_INVALID_ARGUMENT:
    case ATTNJIT_INVALID_PROBLEM:
      raise(PyExc_ValueError, "%s", attnjit_last_error());
    case ATTNJIT_UNSUPPORTED:
      raise(PyExc_NotImplementedError, "%s", attnjit_last_error());
    default:
      raise(PyExc_RuntimeError, "%s: %s", attnjit_status_name(status), attnjit_last_error());
  }
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

// The two passes, for enqueue() below.
struct Forward {
  using Call = ForwardCall;
  static constexpr auto kSize = &attnjit_forward_workspace_size;
  static constexpr auto kEnqueue = &attnjit_forward;
};
struct Backward {
  using Call = BackwardCall;
  static constexpr auto kSize = &attnjit_backward_workspace_size;
  static constexpr auto kEnqueue = &attnjit_backward;
};

/// Enqueues a pass from (context, allocate, arguments of its call...). `allocate(bytes, device)`
/// returns a tensor of memory that stays allocated for what is on the stream when it is dropped.
template <class Pass>
PyObject* enqueue(PyObject*, PyObject* const* values, Py_ssize_t count) {
  return guarded([&]() -> PyObject* {
    Arguments arguments(values, count, 2 + Pass::Call::kNumArguments);
    Shared& state = shared(arguments.next());
    PyObject* const allocate = arguments.next();
    const typename Pass::Call call(arguments, state.reader);
    const DeviceGuard device(driver(state), call.device());

    std::size_t bytes = 0;
    const auto without_gil = [](auto function) {
      const WithoutGil others;
      return function();
    };
    check(without_gil([&] { return Pass::kSize(state.context, &call.args(), &bytes); }));
    Object memory;
    void* workspace = nullptr;
    if (bytes > 0) {
      memory = checked(PyObject_CallFunction(allocate, "Ki", static_cast<unsigned long long>(bytes),
                                             int{call.device()}));
      workspace = state.reader.read(memory.get(), "workspace").data;
    }
    check(without_gil([&] {
      return Pass::kEnqueue(state.context, &call.args(), call.stream(), workspace, bytes);
    }));
    Py_RETURN_NONE;
  });
}

PyObject* create_context(PyObject*, PyObject* nvrtc_path) {
  return guarded([&]() -> PyObject* {
    Object bytes;
    attnjit_context_options options = ATTNJIT_CONTEXT_OPTIONS_INIT;
    if (!is_none(nvrtc_path)) {
      PyObject* encoded = nullptr;
      if (PyUnicode_FSConverter(nvrtc_path, &encoded) == 0) throw PythonError{};
      bytes.reset(encoded);
      options.nvrtc_path = PyBytes_AsString(encoded);
    }
    auto state = std::make_unique<Shared>();
    check(attnjit_context_create(&options, &state->context));
    PyObject* const capsule = PyCapsule_New(state.get(), kCapsuleName, nullptr);
    if (capsule == nullptr)
      attnjit_context_destroy(state->context);
    else
      state.release();
    return capsule;
  });
}

PyObject* counters(PyObject*, PyObject* capsule) {
  return guarded([&]() -> PyObject* {
    attnjit_counters c = ATTNJIT_COUNTERS_INIT;
    check(attnjit_context_counters(shared(capsule).context, &c));
    return Py_BuildValue("{sKsKsKsKsKsKsKsKsKsKsK}", "plans", c.plans, "compiles", c.compiles,
                         "disk_hits", c.disk_hits, "corrupt", c.corrupt, "write_failures",
                         c.write_failures, "tunes", c.tunes, "timing_launches", c.timing_launches,
                         "record_hits", c.record_hits, "memory_hits", c.memory_hits, "bundle_hits",
                         c.bundle_hits, "lock_timeouts", c.lock_timeouts);
  });
}

PyObject* version(PyObject*, PyObject*) { return PyUnicode_FromString(attnjit_version()); }

template <class Function>
PyCFunction as_method(Function* function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

PyMethodDef methods[] = {
    {"create_context", create_context, METH_O, "create_context(nvrtc_path or None) -> capsule"},
    {"forward", as_method(enqueue<Forward>), METH_FASTCALL,
     "Enqueues a forward; see attnjit/_call.py."},
    {"backward", as_method(enqueue<Backward>), METH_FASTCALL,
     "Enqueues a backward; see attnjit/_call.py."},
    {"counters", counters, METH_O, "counters(context) -> dict of what the context did so far"},
    {"version", version, METH_NOARGS, "version() -> the library's version"},
    {nullptr, nullptr, 0, nullptr}};

PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_native", "The C API of attnjit for tensors.", 0,
                          methods};

}  // namespace
}  // namespace attnjit::python

PyMODINIT_FUNC PyInit__native() { return PyModule_Create(&attnjit::python::definition); }
