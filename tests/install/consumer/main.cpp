// A user of the installed library that needs no GPU: it makes a bad call and reads the answer.
#include <attnjit/attnjit.hpp>
#include <iostream>
#include <string_view>

int main() {
  using attnjit::DType;
  using attnjit::Tensor;
  attnjit::Context context({.cache_directory = "0", .nvrtc_path = {}, .log = {}});
  alignas(16) static std::byte memory[64];  // never read: the call is refused by its shapes
  attnjit::ForwardArgs args;
  args.q = Tensor::contiguous(memory, DType::kBFloat16, {1, 4, 128, 64});
  args.k = Tensor::contiguous(memory, DType::kBFloat16, {1, 2, 128, 64});
  args.v = Tensor::contiguous(memory, DType::kBFloat16, {1, 3, 128, 64});  // not k's heads
  args.out = Tensor::contiguous(memory, DType::kBFloat16, {1, 4, 128, 64});
  try {
    context.forward(args);
  } catch (const attnjit::Error& error) {
    const std::string_view message = error.what();
    const bool expected = error.kind() == attnjit::ErrorKind::kInvalidProblem &&
                          message.find("v: head axis is 3; expected 2") != message.npos;
    std::cout << (expected ? "refused as it should be: " : "unexpected error: ") << message << '\n';
    return expected ? 0 : 1;
  }
  std::cout << "the bad call was accepted\n";
  return 1;
}
