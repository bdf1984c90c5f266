#include <array>

#include "arguments.hpp"
#include "calls.hpp"
#include "context.hpp"

namespace attnjit::python {
namespace {

// An address for what is not there: explanations look at addresses for null and alignment alone.
constexpr std::uintptr_t kNowhere = std::uintptr_t{1} << 20;
float* nowhere() { return reinterpret_cast<float*>(kNowhere); }

// A dense tensor that is not there.
attnjit_tensor dense(std::int32_t dtype, const std::array<std::int64_t, 4>& sizes) {
  attnjit_tensor t{};
  t.data = nowhere();
  t.dtype = dtype;
  std::int64_t stride = 1;
  for (int axis = 3; axis >= 0; --axis) {
    const auto place = static_cast<std::size_t>(axis);
    t.shape[axis] = sizes[place];
    t.strides[axis] = stride;
    stride *= sizes[place];
  }
  return t;
}

// One with the rows of `of`, of `columns` elements.
attnjit_tensor rows_like(const attnjit_tensor& of, std::int64_t columns) {
  return dense(of.dtype, {of.shape[0], of.shape[1], of.shape[2], columns});
}

// The gradient of a bias, which sums over its broadcast axes.
attnjit_tensor gradient_of(const attnjit_tensor& bias) {
  std::array<std::int64_t, 4> sizes{};
  for (std::size_t axis = 0; axis < 4; ++axis) {
    sizes[axis] = bias.strides[axis] == 0 ? 1 : bias.shape[axis];
  }
  return dense(bias.dtype, sizes);
}

const char* explain_backward(Shared& state, const attnjit_forward_args& forward, bool need_dbias,
                             bool deterministic) {
  attnjit_backward_args args = ATTNJIT_BACKWARD_ARGS_INIT;
  args.forward = &forward;
  args.dout = forward.out;
  args.dq = rows_like(forward.q, forward.q.shape[3]);
  args.dk = rows_like(forward.k, forward.k.shape[3]);
  args.dv = rows_like(forward.v, forward.v.shape[3]);
  attnjit_tensor dbias{};
  if (need_dbias && forward.bias != nullptr) {
    dbias = gradient_of(*forward.bias);
    args.dbias = &dbias;
  }
  args.deterministic = deterministic ? 1 : 0;
  const char* json = nullptr;
  check(attnjit_explain_backward(state.context, &args, &json));
  return json;
}

}  // namespace

PyObject* explain(PyObject*, PyObject* const* values, Py_ssize_t count) {
  return guarded([&]() -> PyObject* {
    Arguments arguments(values, count, 1 + ForwardCall::kNumArguments + 3);
    Shared& state = shared(arguments.next());
    const ForwardCall call(arguments, state);
    const bool backward = arguments.flag();
    const bool need_dbias = arguments.flag();
    const bool deterministic = arguments.flag();
    attnjit_forward_args forward = call.args();
    forward.out = rows_like(forward.q, forward.v.shape[3]);
    const char* json = nullptr;
    if (backward) {
      forward.lse = nowhere();
      json = explain_backward(state, forward, need_dbias, deterministic);
    } else {
      check(attnjit_explain_forward(state.context, &forward, &json));
    }
    return PyUnicode_FromString(json);
  });
}

}  // namespace attnjit::python
