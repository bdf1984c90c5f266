#pragma once
#include "attnjit/ptx/device.cuh"
#include "attnjit/tensor_map.h"
#include "attnjit/types.h"

// Copies by the copy engine. The maps are those that executor::encode_tensor_map() writes.
namespace attnjit::kernel::ptx {

ATTNJIT_DEVICE void tensor_load(uint32 shared, const TensorMap& map, uint32 barrier, int c0, int c1,
                                int c2, int c3) {
  const int start[] = {c0, c1, c2, c3};
  services->tensor_load(shared, &map, barrier, start, 4);
}
ATTNJIT_DEVICE void tensor_load(uint32 shared, const TensorMap& map, uint32 barrier, int c0, int c1,
                                int c2, int c3, int c4) {
  const int start[] = {c0, c1, c2, c3, c4};
  services->tensor_load(shared, &map, barrier, start, 5);
}

ATTNJIT_DEVICE void tensor_store_if(bool condition, const TensorMap& map, uint32 shared, int c0,
                                    int c1, int c2, int c3) {
  const int start[] = {c0, c1, c2, c3};
  if (condition) services->tensor_store(&map, shared, start, 4);
}
ATTNJIT_DEVICE void tensor_store_commit() { services->tensor_store_commit(); }
template <int kPending = 0>
ATTNJIT_DEVICE void tensor_store_wait_read() {
  services->tensor_store_wait_read(kPending);
}

template <int kPending = 0>
ATTNJIT_DEVICE void tensor_store_wait() {
  services->tensor_store_wait(kPending);
}
ATTNJIT_DEVICE void fence_async_proxy_global() {}

ATTNJIT_DEVICE void fence_async_proxy() { services->fence_async_proxy(); }

}  // namespace attnjit::kernel::ptx
