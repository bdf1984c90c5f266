// Causal attention on the CUDA runtime: 32 query heads share 8 key/value heads.
#include <cuda_runtime.h>

#include <attnjit/attnjit.hpp>
#include <cstdint>
#include <cstdio>
#include <vector>

using attnjit::DType;
using attnjit::Tensor;

// A [1, heads, 1024, 128] bf16 tensor on the device. `step` > 0 fills it with values in [1, 2).
Tensor make_tensor(std::int64_t heads, unsigned step) {
  std::vector<std::uint16_t> host(heads * 1024 * 128);
  for (std::size_t i = 0; i < host.size(); ++i) host[i] = 0x3f80 + i * step % 128;
  void* device = nullptr;
  cudaMalloc(&device, host.size() * 2);
  cudaMemcpy(device, host.data(), host.size() * 2, cudaMemcpyHostToDevice);
  return Tensor::contiguous(device, DType::kBFloat16, {1, heads, 1024, 128});
}

int main() try {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::puts("no CUDA device here: nothing to run");
    return 0;
  }
  attnjit::ForwardArgs args;
  args.q = make_tensor(32, 7);
  args.k = make_tensor(8, 11);
  args.v = make_tensor(8, 13);
  args.out = make_tensor(32, 0);
  args.causal = true;
  args.diagonal = attnjit::Diagonal::kBottomRight;

  attnjit::Context context;  // one per process
  context.forward(args);     // on the default stream; the first call compiles the kernel

  std::vector<std::uint16_t> out(32 * 1024 * 128);
  cudaMemcpy(out.data(), args.out.data, out.size() * 2, cudaMemcpyDeviceToHost);
  std::uint64_t checksum = 0;
  for (const std::uint16_t bits : out) checksum = checksum * 31 + bits;
  std::printf("checksum %016llx\n", static_cast<unsigned long long>(checksum));
} catch (const attnjit::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
