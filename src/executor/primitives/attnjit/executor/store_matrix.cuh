#pragma once
#include "attnjit/executor/collective.cuh"
#include "attnjit/ptx/device.cuh"
#include "attnjit/types.h"

namespace attnjit::kernel::ptx {

// A lane's words of four 8x8 matrices, and the row that it supplies the address of: row l % 8 of
// matrix l / 8, two elements of which each of lanes 4 (l % 8) to 4 (l % 8) + 3 holds.
ATTNJIT_DEVICE void store_matrices(uint32 address, const uint32 (&word)[4]) {
  struct Lane {
    const uint32* word;
    uint32 row[4];
  } self{word, {}};
  warp_collective("store_matrices", self, [](Lane*(&lanes)[32]) {
    for (int l = 0; l < 32; ++l) {
      for (int i = 0; i < 4; ++i) lanes[l]->row[i] = lanes[4 * (l % 8) + i]->word[l / 8];
    }
  });
  services->store_shared(address, self.row, sizeof self.row, "store_matrices");
}

}  // namespace attnjit::kernel::ptx
