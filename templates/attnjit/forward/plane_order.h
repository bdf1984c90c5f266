#pragma once
#include "attnjit/score/batch_groups_params.h"
#include "attnjit/types.h"

namespace attnjit::kernel {

// The order in which thread blocks take planes, which are (batch element, query head) pairs: head
// by head, and of a head those after each other that share a plane of the bias. `sharers` batch
// elements do, in runs of `run` neighbours.
struct PlaneOrder {
  int32 batch;
  int32 sharers, run;
  BatchCycle cycle;

  // The batch element of the plane `index` of a head.
  ATTNJIT_CONSTEXPR int batch_element(uint32 index) const {
    const int sharer = static_cast<int>(index % sharers), planes = static_cast<int>(cycle.planes);
    return cycle.first_run(index / sharers) * run + sharer / run * planes * run + sharer % run;
  }
};

}  // namespace attnjit::kernel
