// Without headers of PyTorch, among which is another fmt than that of attnjit's own.
#include "launch.hpp"

#include <memory>
#include <stdexcept>

#include "device_guard.hpp"

namespace attnjit::torch_library {
namespace {

const cuda::Driver& driver() {
  static const auto* const loaded = new std::shared_ptr<const cuda::Driver>(cuda::Driver::load());
  return **loaded;
}

}  // namespace

void check(attnjit_status status) {
  if (status != ATTNJIT_OK) throw std::runtime_error(attnjit_last_error());
}

attnjit_context* shared_context() {
  static attnjit_context* const made = [] {
    attnjit_context* result = nullptr;
    check(attnjit_context_create(nullptr, &result));
    return result;
  }();
  return made;
}

void enqueue(const attnjit_forward_args& args, int device, CUstream_st* stream,
             const std::function<void*(std::size_t)>& allocate) {
  const python::DeviceGuard guard(&driver(), device);
  std::size_t bytes = 0;
  check(attnjit_forward_workspace_size(shared_context(), &args, &bytes));
  void* const workspace = bytes > 0 ? allocate(bytes) : nullptr;
  check(attnjit_forward(shared_context(), &args, stream, workspace, bytes));
}

}  // namespace attnjit::torch_library
