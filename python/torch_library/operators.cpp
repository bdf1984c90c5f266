// The operators of torch.ops.attnjit, for programs with and without Python: their schemas, and a
// forward for exported programs, which serves wherever no other implementation is registered.
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/library.h>

#include <exception>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>

#include "forward.hpp"
#include "launch.hpp"
#include "schemas.hpp"
#include "tensors.hpp"

// Of libtorch_cuda; null where PyTorch was built without CUDA.
extern "C" __attribute__((weak)) AOTITorchError aoti_torch_get_current_cuda_stream(
    std::int32_t device_index, void** ret_stream);

namespace attnjit::torch_library {
namespace {

CUstream_st* current_stream(int device) {
  void* stream = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(device, &stream));
  return static_cast<CUstream_st*>(stream);
}

void run(const ForwardCall& call) {
  // Stays allocated for what is on the stream when the tensor is dropped.
  std::optional<Tensor> workspace;
  enqueue(call.args(), call.device(), current_stream(call.device()), [&](std::size_t bytes) {
    const auto size = static_cast<std::int64_t>(bytes);
    workspace = new_contiguous(torch::headeronly::ScalarType::Byte, call.device(), {&size, 1});
    return workspace->data_ptr();
  });
}

/// Null, or what went wrong; the text stays until the next failure on this thread.
[[gnu::noinline]] const char* why_failed(StableIValue* stack, std::uint64_t num_arguments) {
  thread_local std::string message;
  try {
    if (num_arguments != ForwardInputs::kNumArguments) {
      throw std::runtime_error("attnjit::forward: its schema is another version's");
    }
    const ForwardInputs inputs(stack);
    check_device(inputs.q, "q", inputs.q.get_device());
    const ForwardCall call(shared_context(), inputs);
    run(call);
    for (const Tensor& result : call.results()) {
      *stack++ = torch::stable::detail::from(result);
    }
    return nullptr;
  } catch (const std::exception& error) {
    message = error.what();
    return message.c_str();
  }
}

/// PyTorch throws its own exception, since the C++ libraries of the two may differ. For the same
/// reason nothing is to be destroyed or caught in this function, which the exception leaves.
void forward(StableIValue* stack, std::uint64_t num_arguments, std::uint64_t) {
  const char* const failure = why_failed(stack, num_arguments);
  if (failure != nullptr) {
    aoti_torch_check(false, "attnjit::forward", __FILE__, __LINE__, failure);
  }
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
