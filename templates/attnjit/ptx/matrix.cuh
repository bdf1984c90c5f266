#pragma once
#include "attnjit/ptx/device.cuh"
#include "attnjit/types.h"

// Warp-wide matrix instructions (PTX ISA, "Matrix multiply-accumulate operation using mma").
namespace attnjit::kernel::ptx {

// Operand fragments of m16n8k16: A has 16 rows by 16 columns, BPair two B operands side by side
// (16 deep, 8 columns each).
struct FragmentA {
  uint32 word[4];
};
struct FragmentBPair {
  uint32 word[2][2];
};

// Four 8x8 matrices of 16-bit elements. Lane l supplies the address of row l % 8 of matrix l / 8.
ATTNJIT_DEVICE void load_matrices(uint32 (&word)[4], uint32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
               : "r"(address)
               : "memory");
}
ATTNJIT_DEVICE void load_matrices_transposed(uint32 (&word)[4], uint32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
               : "r"(address)
               : "memory");
}

ATTNJIT_DEVICE FragmentA load_fragment_a(uint32 address) {
  FragmentA a;
  load_matrices(a.word, address);
  return a;
}
ATTNJIT_DEVICE FragmentBPair as_fragment_b_pair(const uint32 (&word)[4]) {
  return {{{word[0], word[1]}, {word[2], word[3]}}};
}
ATTNJIT_DEVICE FragmentBPair load_fragment_b(uint32 address) {
  uint32 word[4];
  load_matrices(word, address);
  return as_fragment_b_pair(word);
}
ATTNJIT_DEVICE FragmentBPair load_fragment_b_transposed(uint32 address) {
  uint32 word[4];
  load_matrices_transposed(word, address);
  return as_fragment_b_pair(word);
}

// c += a b, fp32 accumulation.
template <DType kDType>
ATTNJIT_DEVICE void multiply_accumulate(float (&c)[4], const FragmentA& a, const uint32 (&b)[2]) {
  if constexpr (kDType == DType::kBFloat16) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "r"(b[0]), "r"(b[1]));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "r"(b[0]), "r"(b[1]));
  }
}

}  // namespace attnjit::kernel::ptx
