#pragma once
#include "attnjit/ptx/device.cuh"
#include "attnjit/types.h"

// Barriers in shared memory (PTX ISA, "mbarrier"): 8 bytes at a multiple of 8. A barrier goes from
// phase to phase; a phase ends when the arrivals that the barrier was made for have come and every
// byte that was announced has landed.
namespace attnjit::kernel::ptx {

ATTNJIT_DEVICE void barrier_init(uint32 barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
// Shows the barriers that this thread has made to the copy engine; threads need a block_sync()
// after it.
ATTNJIT_DEVICE void barrier_init_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Arrives. Threads that wait for the phase see what this thread has done before.
ATTNJIT_DEVICE void barrier_arrive(uint32 barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
// Arrives if `condition` holds. A predicate, not a branch: lanes that diverge in a loop around
// wgmma would take its descriptors out of uniform registers (H200: 5 to 11 % of a forward).
ATTNJIT_DEVICE void barrier_arrive_if(bool condition, uint32 barrier) {
  asm volatile(
      "{\n.reg .pred arrives;\n"
      "setp.ne.u32 arrives, %1, 0;\n"
      "@arrives mbarrier.arrive.shared::cta.b64 _, [%0];\n}" ::"r"(barrier),
      "r"(static_cast<uint32>(condition))
      : "memory");
}
// Announces that copies will bring `bytes` to this phase, and arrives.
ATTNJIT_DEVICE void barrier_arrive_expecting(uint32 barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
// Waits for the end of the phase of parity `parity`: phases are 0, 1, 0, 1 ... The phase before the
// first counts as ended, so that a wait for parity 1 passes a new barrier.
ATTNJIT_DEVICE void barrier_wait(uint32 barrier, uint32 parity) {
  asm volatile(
      "{\n.reg .pred ended;\n"
      "again_%=:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 ended, [%0], %1;\n"
      "@!ended bra again_%=;\n}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

}  // namespace attnjit::kernel::ptx
