#pragma once
#include "attnjit/ptx/math.cuh"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/ptx/sync.cuh"
#include "attnjit/tile/fragments.cuh"

// The largest scores of a thread's rows, for a softmax that keeps no maximum. Empty where the
// config has no row_max.
namespace attnjit::kernel {

template <bool kKept, int kRowTiles>
struct RowMaxima {
  ATTNJIT_DEVICE void begin() {}
  template <int kGroups>
  ATTNJIT_DEVICE void see(const Fragments<kRowTiles, kGroups>&) {}
};

template <int kRowTiles>
struct RowMaxima<true, kRowTiles> {
  RowValues<kRowTiles> highest;  // of this lane's keys

  ATTNJIT_DEVICE void begin() {
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) highest[m][h] = -ptx::infinity();
    }
  }
  // Updates the maxima with a tile's scores, -inf where they are dropped.
  template <int kGroups>
  ATTNJIT_DEVICE void see(const Fragments<kRowTiles, kGroups>& scores) {
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) highest[m][h] = fmaxf(highest[m][h], scores.row_max(m, h));
    }
  }
  // The maximum over all keys of a row. All lanes of a warp call it.
  ATTNJIT_DEVICE float of(int m, int h) const { return ptx::quad_max(highest[m][h]); }
};

// The same for one row tile in shared memory, for a kernel without a register to spare: in
// registers they made D128 spill 240 bytes (ptxas 13.0). Each thread has its own words, kPitch
// bytes apart for its two rows and for even and odd indices, so that the maxima of an index last
// until the end of the next one.
template <bool kKept, int kPitch>
struct SharedRowMaxima {
  uint32 place;

  ATTNJIT_DEVICE void begin(uint32) const {}
  template <int kGroups>
  ATTNJIT_DEVICE void see(uint32, const Fragments<1, kGroups>&) const {}
};

template <int kPitch>
struct SharedRowMaxima<true, kPitch> {
  uint32 place;

  ATTNJIT_DEVICE void begin(uint32 index) const {
#pragma unroll
    for (int h = 0; h < 2; ++h) ptx::store_shared_4(at(index, h), ptx::as_bits(-ptx::infinity()));
  }
  template <int kGroups>
  ATTNJIT_DEVICE void see(uint32 index, const Fragments<1, kGroups>& scores) const {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float highest = fmaxf(of_lane(index, h), scores.row_max(0, h));
      ptx::store_shared_4(at(index, h), ptx::as_bits(highest));
    }
  }
  ATTNJIT_DEVICE float of(uint32 index, int h) const { return ptx::quad_max(of_lane(index, h)); }

 private:
  ATTNJIT_DEVICE uint32 at(uint32 index, int h) const {
    return place + ((index & 1) * 2 + h) * kPitch;
  }
  ATTNJIT_DEVICE float of_lane(uint32 index, int h) const {
    return ptx::as_float(ptx::load_shared_4(at(index, h)));
  }
};

}  // namespace attnjit::kernel
