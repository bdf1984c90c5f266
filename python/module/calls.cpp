#include "calls.hpp"

#include <array>
#include <span>

#include "arguments.hpp"
#include "context.hpp"

namespace attnjit::python {
namespace {

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

template <class Function>
auto without_gil(Function function) {
  const WithoutGil others;
  return function();
}

/// Enqueues a call with its results and stream. Memory of workspace stays allocated for what is on
/// the stream when its tensor is dropped.
template <class Pass>
void enqueue(Shared& state, const typename Pass::Call& call, const DeviceGuard& device) {
  std::size_t bytes = 0;
  check(without_gil([&] { return Pass::kSize(state.context, &call.args(), &bytes); }));
  Object memory;
  void* workspace = nullptr;
  if (bytes > 0) {
    const std::array sizes{static_cast<std::int64_t>(bytes)};
    memory = state.allocator.contiguous(device, ATTNJIT_BOOL, sizes);
    workspace = call.read(memory.get(), "workspace").data;
  }
  check(without_gil([&] {
    return Pass::kEnqueue(state.context, &call.args(), call.stream(), workspace, bytes);
  }));
}

}  // namespace

PyObject* forward(PyObject*, PyObject* const* values, Py_ssize_t count) {
  return guarded([&]() -> PyObject* {
    Arguments arguments(values, count, 1 + ForwardCall::kNumArguments + 4);
    Shared& state = shared(arguments.next());
    ForwardCall call(arguments, state);
    const bool need_lse = arguments.flag();
    const bool need_row_max = arguments.flag();
    const bool need_max_logits = arguments.flag();
    const bool sequence_major = arguments.flag_or([&] { return is_sequence_major(call.args().q); });
    const DeviceGuard device(driver(state), call.device());

    const attnjit_tensor& q = call.args().q;
    const Object out = state.allocator.rows(device, q, call.args().v.shape[3], sequence_major);
    const auto numbers = [&](bool wanted, std::span<const std::int64_t> sizes) {
      return wanted ? state.allocator.contiguous(device, ATTNJIT_FLOAT32, sizes)
                    : new_reference(Py_None);
    };
    const Object lse = numbers(need_lse, std::span(q.shape).first(3));
    const Object row_max = numbers(need_row_max, std::span(q.shape).first(3));
    const Object max_logits = numbers(need_max_logits, std::span(&q.shape[1], 1));
    call.set_results(out.get(), lse.get(), row_max.get(), max_logits.get());
    call.set_stream(Py_None);
    enqueue<Forward>(state, call, device);
    return PyTuple_Pack(4, out.get(), lse.get(), row_max.get(), max_logits.get());
  });
}

PyObject* backward(PyObject*, PyObject* const* values, Py_ssize_t count) {
  return guarded([&]() -> PyObject* {
    Arguments arguments(values, count, 1 + BackwardCall::kNumArguments + 4);
    Shared& state = shared(arguments.next());
    BackwardCall call(arguments, state);
    const bool need_dbias = arguments.flag();
    const bool need_dsink = arguments.flag();
    call.set_deterministic(arguments.flag());
    call.set_read_gradients(arguments.next());
    const DeviceGuard device(driver(state), call.device());

    const attnjit_forward_args& inputs = call.forward().args();
    const auto gradient = [&](const attnjit_tensor& of) {
      return state.allocator.rows(device, of, of.shape[3], is_sequence_major(of));
    };
    const Object dq = gradient(inputs.q);
    const Object dk = gradient(inputs.k);
    const Object dv = gradient(inputs.v);
    Object dbias = new_reference(Py_None);
    if (need_dbias && inputs.bias != nullptr) {
      dbias = state.allocator.contiguous(device, inputs.bias->dtype, call.forward().bias_shape());
    }
    Object dsink = new_reference(Py_None);
    if (need_dsink && inputs.sink != nullptr) {
      const std::span heads(&inputs.sink->shape[1], 1);
      dsink = state.allocator.contiguous(device, ATTNJIT_FLOAT32, heads);
    }
    call.set_results(dq.get(), dk.get(), dv.get(), dbias.get(), dsink.get());
    call.set_stream(Py_None);
    enqueue<Backward>(state, call, device);
    return PyTuple_Pack(5, dq.get(), dk.get(), dv.get(), dbias.get(), dsink.get());
  });
}

PyObject* enqueue_forward(PyObject*, PyObject* const* values, Py_ssize_t count) {
  return guarded([&]() -> PyObject* {
    Arguments arguments(values, count, 1 + ForwardCall::kNumArguments + 5);
    Shared& state = shared(arguments.next());
    ForwardCall call(arguments, state);
    PyObject* const out = arguments.next();
    PyObject* const lse = arguments.next();
    PyObject* const row_max = arguments.next();
    call.set_results(out, lse, row_max, arguments.next());
    call.set_stream(arguments.next());
    enqueue<Forward>(state, call, DeviceGuard(driver(state), call.device()));
    Py_RETURN_NONE;
  });
}

PyObject* enqueue_backward(PyObject*, PyObject* const* values, Py_ssize_t count) {
  return guarded([&]() -> PyObject* {
    Arguments arguments(values, count, 1 + BackwardCall::kNumArguments + 8);
    Shared& state = shared(arguments.next());
    BackwardCall call(arguments, state);
    call.set_deterministic(arguments.flag());
    PyObject* const dq = arguments.next();
    PyObject* const dk = arguments.next();
    PyObject* const dv = arguments.next();
    PyObject* const dbias = arguments.next();
    call.set_results(dq, dk, dv, dbias, arguments.next());
    call.set_read_gradients(arguments.next());
    call.set_stream(arguments.next());
    enqueue<Backward>(state, call, DeviceGuard(driver(state), call.device()));
    Py_RETURN_NONE;
  });
}

PyObject* enqueue_merge_lse(PyObject*, PyObject* const* values, Py_ssize_t count) {
  return guarded([&]() -> PyObject* {
    Arguments arguments(values, count, 1 + MergeCall::kNumArguments);
    Shared& state = shared(arguments.next());
    const MergeCall call(arguments, state.reader);
    const DeviceGuard device(driver(state), call.device());
    check(
        without_gil([&] { return attnjit_merge_lse(state.context, &call.args(), call.stream()); }));
    Py_RETURN_NONE;
  });
}

PyObject* enqueue_prepare_mask(PyObject*, PyObject* const* values, Py_ssize_t count) {
  return guarded([&]() -> PyObject* {
    Arguments arguments(values, count, 1 + PrepareMaskCall::kNumArguments);
    Shared& state = shared(arguments.next());
    const PrepareMaskCall call(arguments, state.reader);
    const DeviceGuard device(driver(state), call.device());
    std::size_t size = 0;
    check(without_gil(
        [&] { return attnjit_prepared_mask_size(state.context, &call.args(), &size); }));
    if (static_cast<std::uint64_t>(call.memory_bytes()) != size) {
      raise(PyExc_ValueError, "memory: %lld bytes; expected %zu",
            static_cast<long long>(call.memory_bytes()), size);
    }
    attnjit_prepared_mask made{};
    check(without_gil(
        [&] { return attnjit_prepare_mask(state.context, &call.args(), call.stream(), &made); }));
    Py_RETURN_NONE;
  });
}

}  // namespace attnjit::python
