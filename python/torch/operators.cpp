// The operators of torch.ops.attnjit, for programs with and without Python: their schemas, and a
// forward for exported programs, which serves wherever no other implementation is registered.
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>

#include <exception>
#include <sstream>
#include <string>

#include "forward.hpp"
#include "schemas.hpp"
#include "tensors.hpp"

// Of libtorch_cuda; null where PyTorch was built without CUDA.
extern "C" __attribute__((weak)) AOTITorchError aoti_torch_get_current_cuda_stream(
    std::int32_t device_index, void** ret_stream);

namespace attnjit::torch_library {
namespace {

/// The one context of this process, which lives until it ends: other threads may still be in calls.
attnjit_context* context() {
  static attnjit_context* const made = [] {
    attnjit_context* result = nullptr;
    check(attnjit_context_create(nullptr, &result));
    return result;
  }();
  return made;
}

CUstream_st* current_stream(int device) {
  void* stream = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(device, &stream));
  return static_cast<CUstream_st*>(stream);
}

void run(const ForwardCall& call) {
  const torch::stable::accelerator::DeviceGuard guard(call.device());
  std::size_t bytes = 0;
  check(attnjit_forward_workspace_size(context(), &call.args(), &bytes));
  const std::int64_t size = static_cast<std::int64_t>(bytes);
  // Stays allocated for what is on the stream when the tensor is dropped.
  const Tensor workspace =
      new_contiguous(torch::headeronly::ScalarType::Byte, call.device(), {&size, 1});
  check(attnjit_forward(context(), &call.args(), current_stream(call.device()),
                        workspace.data_ptr(), bytes));
}

void forward(StableIValue* stack, std::uint64_t num_arguments, std::uint64_t) {
  std::string message;
  try {
    STD_TORCH_CHECK(num_arguments == ForwardInputs::kNumArguments,
                    "attnjit::forward: its schema is another version's");
    const ForwardInputs inputs(stack);
    const ForwardCall call(context(), inputs);
    run(call);
    for (const Tensor& result : call.results()) {
      *stack++ = torch::stable::detail::from(result);
    }
    return;
  } catch (const std::exception& error) {
    message = error.what();
  }
  // PyTorch throws its own exception, for the C++ libraries of the two may differ.
  aoti_torch_check(false, "attnjit::forward", __FILE__, __LINE__, message.c_str());
}

void define(torch::stable::detail::StableLibrary& library) {
  std::istringstream text{std::string(schemas())};
  std::string line, schema;
  while (std::getline(text, line)) {
    schema += line + ' ';
    if (line.empty() || text.peek() == EOF) {
      library.def(schema.c_str());
      schema.clear();
    }
  }
}

}  // namespace

STABLE_TORCH_LIBRARY(attnjit, library) { define(library); }

// An implementation for CUDA, as Python registers one, goes before this.
STABLE_TORCH_LIBRARY_IMPL(attnjit, CompositeExplicitAutograd, library) {
  library.impl("forward", &forward);
}

}  // namespace attnjit::torch_library
