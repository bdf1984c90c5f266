#include "cli/input/cases.hpp"

#include <cstdint>

#include "attnjit/error.hpp"
#include "instance/buffer_specs.hpp"
#include "instance/call_args.hpp"

namespace attnjit::cli {
namespace {

// The spec agrees with itself once it is validated, so what else is refused are limits of the
// library.
template <class Args>
auto make_supported(const instance::ProblemSpec& spec,
                    const Args& (instance::ShapeCall::*args)() const) {
  instance::validate(spec);
  try {
    return problem::make_problem((instance::ShapeCall(spec).*args)());
  } catch (const Error& error) {
    throw Error(ErrorKind::kUnsupported, error.what());
  }
}

}  // namespace

problem::Problem make_problem(const instance::ProblemSpec& spec) {
  return make_supported(spec, &instance::ShapeCall::forward);
}

problem::BackwardProblem make_backward_problem(const instance::ProblemSpec& spec) {
  return make_supported(spec, &instance::ShapeCall::backward);
}

bool is_empty(const instance::ProblemSpec& spec) {
  return spec.backward ? make_backward_problem(spec).empty() : !make_problem(spec).has_rows();
}

double tensor_bytes(const instance::ProblemSpec& spec) {
  double total = 0;
  for (const instance::BufferSpec& buffer : instance::buffer_specs(spec)) {
    auto bytes = static_cast<double>(element_size(buffer.view.dtype));
    for (const std::int64_t size : buffer.view.shape) bytes *= static_cast<double>(size);
    total += bytes;
  }
  return total;
}

}  // namespace attnjit::cli
