// Runs a module that export.py has compiled, on a GPU, without Python: cpp_exported layer.pt2
#include <ATen/ATen.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

#include <exception>
#include <iostream>

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "cpp_exported: expected a file of export.py, as in cpp_exported layer.pt2\n";
    return 2;
  }
  try {
    const c10::InferenceMode guard;
    torch::inductor::AOTIModelPackageLoader layer(argv[1]);
    const auto options = at::device(layer.get_metadata().at("AOTI_DEVICE_KEY")).dtype(at::kFloat);
    const at::Tensor x = at::linspace(-1, 1, 2 * 128 * 256, options);
    const at::Tensor out = layer.run({x.reshape({2, 128, 256}).to(at::kBFloat16)}).at(0);
    std::cout << "mean of |out|: " << out.abs().to(at::kFloat).mean().item<float>() << "\n";
  } catch (const c10::Error& error) {
    std::cerr << "cpp_exported: " << error.what_without_backtrace() << "\n";
    return 1;
  } catch (const std::exception& error) {
    std::cerr << "cpp_exported: " << error.what() << "\n";
    return 1;
  }
}
