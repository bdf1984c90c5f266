#pragma once
#include "attnjit/ptx/device.cuh"
#include "attnjit/types.h"

namespace attnjit::kernel::ptx {

ATTNJIT_DEVICE void barrier_init(uint32 barrier, int arrivals) {
  services->barrier_init(barrier, arrivals);
}
ATTNJIT_DEVICE void barrier_init_fence() { services->barrier_init_fence(); }

ATTNJIT_DEVICE void barrier_arrive(uint32 barrier) {
  services->barrier_arrive(barrier, 0, "barrier_arrive");
}
ATTNJIT_DEVICE void barrier_arrive_if(bool condition, uint32 barrier) {
  if (condition) services->barrier_arrive(barrier, 0, "barrier_arrive_if");
}
ATTNJIT_DEVICE void barrier_arrive_expecting(uint32 barrier, int bytes) {
  services->barrier_arrive(barrier, bytes, "barrier_arrive_expecting");
}
ATTNJIT_DEVICE void barrier_wait(uint32 barrier, uint32 parity) {
  services->barrier_wait(barrier, parity);
}

}  // namespace attnjit::kernel::ptx
