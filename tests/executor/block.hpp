#pragma once
#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "executor/tensor_map.hpp"
#include "executor/thread_block.hpp"
#include "executor/violation.hpp"

// A block of plain functions that call the services as the primitives do.
namespace attnjit::executor {

using Kernel = void (*)(void* const* parameters);

inline constexpr unsigned kSharedBase = SharedMemory::kBase;

/// Runs one block; the violation, or "".
inline std::string run_block(Kernel kernel, unsigned threads, void* const* parameters = nullptr,
                             GlobalMemory memory = {}, unsigned shared_bytes = 65536) {
  const Launch launch{"kernel", kernel, parameters, 1, threads, shared_bytes};
  memory.begin_kernel(false);
  ThreadBlock block(launch, memory);
  try {
    block.begin(0);
    while (block.go_on() != ThreadBlock::Progress::kEnded) {
    }
  } catch (const Violation& violation) {
    return violation.what();
  }
  return "";
}

inline const Services& call() { return ThreadBlock::services(); }
inline int thread() { return call().thread_index(); }
inline void block_sync() {
  call().block_barrier("block_sync", nullptr, [](void* const*, int) {});
}
inline void store(unsigned address, unsigned value) {
  call().store_shared(address, &value, sizeof value, "store_shared_4");
}
inline unsigned load(unsigned address) {
  unsigned value = 0;
  call().load_shared(address, &value, sizeof value, Reader::kThread, "load_shared_4");
  return value;
}
inline void arrive(unsigned barrier, int bytes = 0) {
  call().barrier_arrive(barrier, bytes, "barrier_arrive_if");
}
/// Thread 0 makes an mbarrier, and the block sees it.
inline void make_barrier(unsigned barrier, int arrivals) {
  if (thread() == 0) {
    call().barrier_init(barrier, arrivals);
    call().barrier_init_fence();
  }
  block_sync();
}

/// The properties of a tensor map, with the swizzle and dense strides unless said otherwise.
struct MapSpec {
  std::vector<cuuint64_t> extents;
  std::vector<cuuint32_t> box;
  std::vector<cuuint64_t> strides = {};  ///< bytes, of axes 1 and up
  std::vector<cuuint32_t> steps = {};
  CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_128B;
  CUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
};
inline CUresult encode(CUtensorMap& map, void* address, MapSpec spec) {
  const std::size_t rank = spec.extents.size();
  cuuint64_t stride = spec.type == CU_TENSOR_MAP_DATA_TYPE_UINT8 ? 1 : 2;
  if (spec.strides.empty()) {
    for (std::size_t axis = 0; axis + 1 < rank; ++axis) {
      spec.strides.push_back(stride *= spec.extents[axis]);
    }
  }
  spec.steps.resize(rank, 1);
  return encode_tensor_map(&map, spec.type, static_cast<cuuint32_t>(rank), address,
                           spec.extents.data(), spec.strides.data(), spec.box.data(),
                           spec.steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE, spec.swizzle,
                           CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

/// A contiguous tensor of `bytes` per element.
inline Tensor view_of(void* data, std::array<std::int64_t, 4> shape) {
  Tensor tensor;
  tensor.data = data;
  tensor.shape = shape;
  tensor.strides = {shape[1] * shape[2] * shape[3], shape[2] * shape[3], shape[3], 1};
  return tensor;
}

}  // namespace attnjit::executor
