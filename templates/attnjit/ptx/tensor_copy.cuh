#pragma once
#include "attnjit/ptx/device.cuh"
#include "attnjit/tensor_map.h"
#include "attnjit/types.h"

// Copies of boxes between global and shared memory by the copy engine (PTX ISA,
// "cp.async.bulk.tensor"). A box begins at the coordinates given, innermost axis first; what of it
// lies outside of the tensor is read as zeros and never written. `map` is a kernel parameter.
namespace attnjit::kernel::ptx {

// Starts a load. Its bytes count towards the phase of `barrier` that has announced them.
ATTNJIT_DEVICE void tensor_load(uint32 shared, const TensorMap& map, uint32 barrier, int c0, int c1,
                                int c2, int c3) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(shared),
      "l"(&map), "r"(barrier), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
      : "memory");
}
ATTNJIT_DEVICE void tensor_load(uint32 shared, const TensorMap& map, uint32 barrier, int c0, int c1,
                                int c2, int c3, int c4) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4, %5, %6, %7}], [%2];" ::"r"(shared),
      "l"(&map), "r"(barrier), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)
      : "memory");
}

// Starts a store if `condition` holds, as part of the thread's open group of stores. A predicate
// for the reason that barrier_arrive_if() has.
ATTNJIT_DEVICE void tensor_store_if(bool condition, const TensorMap& map, uint32 shared, int c0,
                                    int c1, int c2, int c3) {
  asm volatile(
      "{\n.reg .pred stores;\n"
      "setp.ne.u32 stores, %6, 0;\n"
      "@stores cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], "
      "[%1];\n"
      "}" ::"l"(&map),
      "r"(shared), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(static_cast<uint32>(condition))
      : "memory");
}
// Closes the thread's group of stores.
ATTNJIT_DEVICE void tensor_store_commit() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
// Waits until the stores of the thread have read shared memory, but for those of the last kPending
// groups. They are complete when the kernel ends.
template <int kPending = 0>
ATTNJIT_DEVICE void tensor_store_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}

// Waits until the stores and additions of the thread are complete, but for those of the last
// kPending groups.
template <int kPending = 0>
ATTNJIT_DEVICE void tensor_store_wait() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(kPending) : "memory");
}

// Orders what this thread sees or has done in global memory with what the copy engine does there.
ATTNJIT_DEVICE void fence_async_proxy_global() {
  asm volatile("fence.proxy.async.global;" ::: "memory");
}

// Shows what this thread has written to shared memory to the copy engine and to wgmma ("async
// proxy").
ATTNJIT_DEVICE void fence_async_proxy() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

}  // namespace attnjit::kernel::ptx
