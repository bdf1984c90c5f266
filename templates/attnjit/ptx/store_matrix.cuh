#pragma once
#include "attnjit/ptx/device.cuh"
#include "attnjit/types.h"

namespace attnjit::kernel::ptx {

// Writes four 8x8 matrices of 16-bit elements to shared memory, from where load_matrices() would
// have them. Lane l supplies the address of row l % 8 of matrix l / 8.
ATTNJIT_DEVICE void store_matrices(uint32 address, const uint32 (&word)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
               "r"(word[0]), "r"(word[1]), "r"(word[2]), "r"(word[3])
               : "memory");
}
// The same of their transposes, from where load_matrices_transposed() would have them.
ATTNJIT_DEVICE void store_matrices_transposed(uint32 address, const uint32 (&word)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                   address),
               "r"(word[0]), "r"(word[1]), "r"(word[2]), "r"(word[3])
               : "memory");
}

}  // namespace attnjit::kernel::ptx
