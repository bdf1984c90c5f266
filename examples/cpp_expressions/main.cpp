// Causal attention within documents, with a table of relative positions: the mask and the score are
// formulas, and what they read are small tensors.
#include <cuda_runtime.h>

#include <attnjit/attnjit.hpp>
#include <cstdint>
#include <cstdio>
#include <vector>

using attnjit::DType;
using attnjit::Operand;
using attnjit::Tensor;

constexpr std::int64_t kHeads = 8, kLength = 4096, kWidth = 64, kDistances = 257;

template <class T>
void* on_device(const std::vector<T>& host) {
  void* device = nullptr;
  cudaMalloc(&device, host.size() * sizeof(T));
  cudaMemcpy(device, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice);
  return device;
}

// [1, kHeads, kLength, kWidth] in bf16. `step` > 0 fills it with values in [1, 2).
Tensor make_rows(unsigned step) {
  std::vector<std::uint16_t> host(kHeads * kLength * kWidth);
  for (std::size_t i = 0; i < host.size(); ++i) host[i] = 0x3f80 + i * step % 128;
  return Tensor::contiguous(on_device(host), DType::kBFloat16, {1, kHeads, kLength, kWidth});
}

// The document of each token: [1, kLength], a new one every 700.
Tensor make_documents() {
  std::vector<std::int32_t> host(kLength);
  for (std::size_t i = 0; i < host.size(); ++i) host[i] = static_cast<std::int32_t>(i / 700);
  return Tensor::contiguous(on_device(host), DType::kInt32, {1, kLength, 1, 1});
}

// The addition of each head at each distance: [kHeads, kDistances].
Tensor make_table() {
  std::vector<float> host(kHeads * kDistances);
  for (std::size_t i = 0; i < host.size(); ++i) host[i] = -0.01f * static_cast<float>(i % 97);
  return Tensor::contiguous(on_device(host), DType::kFloat32, {kHeads, kDistances, 1, 1});
}

int main() try {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::puts("no CUDA device here: nothing to run");
    return 0;
  }
  attnjit::Context context;  // one per process
  attnjit::ForwardArgs args;
  args.q = make_rows(7);
  args.k = make_rows(11);
  args.v = make_rows(13);
  args.out = make_rows(0);
  args.keep = context.expression("document[b, i] == document[b, j] && j <= i");
  args.score = context.expression("s + table[h, clamp(i - j, 0, 256)]");
  const Operand operands[] = {{"document", 2, make_documents()}, {"table", 2, make_table()}};
  args.operands = operands;
  context.forward(args);  // on the default stream; the first call compiles the kernel

  std::vector<std::uint16_t> out(kHeads * kLength * kWidth);
  cudaMemcpy(out.data(), args.out.data, out.size() * 2, cudaMemcpyDeviceToHost);
  std::uint64_t checksum = 0;
  for (const std::uint16_t bits : out) checksum = checksum * 31 + bits;
  std::printf("checksum %016llx\n", static_cast<unsigned long long>(checksum));
} catch (const attnjit::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
