#include "context.hpp"

#include "arguments.hpp"
#include "attnjit/error.hpp"

namespace attnjit::python {
namespace {

constexpr const char* kCapsuleName = "attnjit._native.context";

}  // namespace

Shared& shared(PyObject* capsule) {
  void* const pointer = PyCapsule_GetPointer(capsule, kCapsuleName);
  if (pointer == nullptr) throw PythonError{};
  return *static_cast<Shared*>(pointer);
}

const cuda::Driver* driver(Shared& state) {
  try {
    if (state.driver == nullptr) state.driver = cuda::Driver::load();
  } catch (const Error&) {
  }
  return state.driver.get();
}

const attnjit_expression* expression(Shared& state, const char* text) {
  if (text == nullptr) return nullptr;
  const auto known = state.expressions.find(text);
  if (known != state.expressions.end()) return known->second;
  const attnjit_expression* made = nullptr;
  check(attnjit_expression_create(state.context, text, &made));
  state.expressions.emplace(text, made);
  return made;
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

PyObject* create_context(PyObject*, PyObject* const* values, Py_ssize_t count) {
  return guarded([&]() -> PyObject* {
    Arguments arguments(values, count, 4);
    PyObject* const nvrtc_path = arguments.next();
    PyObject* const make = arguments.next();
    PyObject* const make_on_current = arguments.next();
    auto state = std::make_unique<Shared>(Allocator(make, make_on_current, arguments.next()));
    Object bytes;
    attnjit_context_options options = ATTNJIT_CONTEXT_OPTIONS_INIT;
    if (!is_none(nvrtc_path)) {
      PyObject* encoded = nullptr;
      if (PyUnicode_FSConverter(nvrtc_path, &encoded) == 0) throw PythonError{};
      bytes.reset(encoded);
      options.nvrtc_path = PyBytes_AsString(encoded);
    }
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

}  // namespace attnjit::python
