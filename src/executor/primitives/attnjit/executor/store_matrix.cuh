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

// Row l % 8 of a transpose has the element in that column of each row: of lanes l % 8 / 2 and every
// fourth one after it, the low or the high half.
ATTNJIT_DEVICE void store_matrices_transposed(uint32 address, const uint32 (&word)[4]) {
  struct Lane {
    const uint32* word;
    uint32 row[4];
  } self{word, {}};
  warp_collective("store_matrices_transposed", self, [](Lane*(&lanes)[32]) {
    for (int l = 0; l < 32; ++l) {
      const int column = l % 8;
      const auto element = [&](int row) {
        return lanes[4 * row + column / 2]->word[l / 8] >> (16 * (column % 2)) & 0xffff;
      };
      for (int i = 0; i < 4; ++i) lanes[l]->row[i] = element(2 * i) | element(2 * i + 1) << 16;
    }
  });
  services->store_shared(address, self.row, sizeof self.row, "store_matrices_transposed");
}

}  // namespace attnjit::kernel::ptx
