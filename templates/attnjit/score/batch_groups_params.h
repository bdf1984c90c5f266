#pragma once
#include "attnjit/types.h"

namespace attnjit::kernel {

// The planes over the batch of a mask, a bias or a dbias with fewer planes than there are batch
// elements. A run of `batches_per_plane` neighbouring elements shares a plane. Runs cycle through
// `planes` planes; after `period` runs the next planes follow. Unsigned: divisions of signed
// numbers take more registers.
struct BatchCycle {
  uint32 planes, period;

  ATTNJIT_CONSTEXPR int plane_of(uint32 run) const {
    return static_cast<int>(run / period * planes + run % planes);
  }
  // Runs that share a plane: their number, and the first one; the others follow `planes` runs
  // apart.
  ATTNJIT_CONSTEXPR int runs() const { return static_cast<int>(period / planes); }
  ATTNJIT_CONSTEXPR int first_run(uint32 plane) const {
    return static_cast<int>(plane / planes * period + plane % planes);
  }
};

// A kernel parameter with the cycle of its planes. Kernels of problems without groups take the
// base.
template <class Params>
struct Grouped : Params {
  BatchCycle cycle;
};

}  // namespace attnjit::kernel
