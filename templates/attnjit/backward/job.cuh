#pragma once
#include "attnjit/ptx/load_if.cuh"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/ptx/shuffle.cuh"
#include "attnjit/ptx/thread.cuh"
#include "attnjit/types.h"

namespace attnjit::kernel {

// What is known of the parts of a tile's keys, a bit for each: which have a kept score, and which
// of those drop keys.
struct KeyParts {
  uint32 kept = 0, masked = 0;
  ATTNJIT_DEVICE bool keeps(int part) const { return (kept >> part & 1) != 0; }
  ATTNJIT_DEVICE bool masks(int part) const { return (masked >> part & 1) != 0; }
};

// A tile of queries of one head; one that does not exist comes after the last.
struct BackwardJob {
  int head, tile;
  bool masks;      // keys are dropped from it
  KeyParts parts;  // where kernels tell them apart

  static constexpr int kNone = -1;  // head

  ATTNJIT_DEVICE bool exists() const { return head != kNone; }
};

// Jobs in shared memory, on their way from the walk to those that multiply: 8 bytes each. With
// kParts they tell of two parts of the keys.
template <bool kParts = false>
struct BackwardJobs {
  ATTNJIT_DEVICE static void put(uint32 address, const BackwardJob& job) {
    ptx::store_shared_4(address, static_cast<uint32>(job.head));
    if constexpr (kParts) {
      ptx::store_shared_4(
          address + 4, static_cast<uint32>(job.tile) << 4 | job.parts.kept << 2 | job.parts.masked);
    } else {
      ptx::store_shared_4(address + 4, static_cast<uint32>(2 * job.tile + (job.masks ? 1 : 0)));
    }
  }
  // Lane 0 alone reads, as lane 0 alone arrives for the warp when a buffer has been used.
  ATTNJIT_DEVICE static BackwardJob take(uint32 address) {
    const bool reads = ptx::lane_index() == 0;
    const uint32 head = ptx::warp_broadcast(ptx::load_shared_4_if(reads, address), 0);
    const uint32 rest = ptx::warp_broadcast(ptx::load_shared_4_if(reads, address + 4), 0);
    if constexpr (kParts) {
      return {static_cast<int>(head),
              static_cast<int>(rest >> 4),
              (rest & 3) != 0,
              {rest >> 2 & 3, rest & 3}};
    }
    return {static_cast<int>(head), static_cast<int>(rest >> 1), (rest & 1) != 0};
  }
};

}  // namespace attnjit::kernel
