#pragma once
#include <cstring>

#include "attnjit/executor/collective.cuh"
#include "attnjit/ptx/device.cuh"
#include "attnjit/ptx/math.cuh"
#include "attnjit/types.h"

// Warp-wide matrix instructions, with the fragment layouts of the PTX ISA ("Matrix
// multiply-accumulate operation using mma").
namespace attnjit::kernel::ptx {

struct FragmentA {
  uint32 word[4];
};
struct FragmentBPair {
  uint32 word[2][2];
};

// A lane's operands of ldmatrix: the row that it supplies, and its words of the result.
struct MatrixRow {
  uint16 row[8];
  uint32 word[4];
};

// Four 8x8 matrices of 16-bit elements. Lane l supplies the address of row l % 8 of matrix l / 8
// and receives two neighbouring elements of each matrix: columns 2 (l % 4) and the next of row
// l / 4, or, transposed, rows 2 (l % 4) and the next of column l / 4.
template <bool kTransposed>
ATTNJIT_DEVICE void load_matrices(uint32 (&word)[4], uint32 address, const char* function) {
  MatrixRow self;
  services->load_shared(address, self.row, sizeof self.row, executor::Reader::kWarp, function);
  warp_collective(function, self, [](MatrixRow*(&lanes)[32]) {
    for (int l = 0; l < 32; ++l) {
      const int major = l / 4, minor = 2 * (l % 4);
      for (int matrix = 0; matrix < 4; ++matrix) {
        MatrixRow* const* rows = lanes + 8 * matrix;
        const uint16 low = kTransposed ? rows[minor]->row[major] : rows[major]->row[minor];
        const uint16 high = kTransposed ? rows[minor + 1]->row[major] : rows[major]->row[minor + 1];
        lanes[l]->word[matrix] = low | static_cast<uint32>(high) << 16;
      }
    }
  });
  std::memcpy(word, self.word, sizeof self.word);
}

ATTNJIT_DEVICE void load_matrices_transposed(uint32 (&word)[4], uint32 address) {
  load_matrices<true>(word, address, "load_matrices_transposed");
}

ATTNJIT_DEVICE FragmentA load_fragment_a(uint32 address) {
  FragmentA a;
  load_matrices<false>(a.word, address, "load_fragment_a");
  return a;
}
ATTNJIT_DEVICE FragmentBPair as_fragment_b_pair(const uint32 (&word)[4]) {
  return {{{word[0], word[1]}, {word[2], word[3]}}};
}
ATTNJIT_DEVICE FragmentBPair load_fragment_b(uint32 address) {
  uint32 word[4];
  load_matrices<false>(word, address, "load_fragment_b");
  return as_fragment_b_pair(word);
}
ATTNJIT_DEVICE FragmentBPair load_fragment_b_transposed(uint32 address) {
  uint32 word[4];
  load_matrices<true>(word, address, "load_fragment_b_transposed");
  return as_fragment_b_pair(word);
}

template <DType kDType>
ATTNJIT_DEVICE float element(const uint32* words, int index) {
  return widen<kDType>(static_cast<uint16>(words[index / 2] >> (16 * (index & 1))));
}

// m16n8k16. Lane l = 4 g + t holds, two elements to a word: of A, rows g and g + 8 of columns 2t,
// 2t + 1 and 2t + 8, 2t + 9; of B, column g of those rows; of C, rows g and g + 8 of columns
// 2t, 2t + 1. The sum is taken in fp64 and rounded once; the device's rounding differs in the last
// bits of fp32.
struct Multiplication {
  float* c;
  const uint32* a;
  const uint32* b;
};
template <DType kDType>
ATTNJIT_DEVICE void multiply(Multiplication* (&lanes)[32]) {
  float a[16][16], b[16][8];
  for (int l = 0; l < 32; ++l) {
    const int g = l / 4, t = 2 * (l % 4);
    for (int i = 0; i < 8; ++i) {
      a[g + 8 * (i / 2 % 2)][t + i % 2 + 8 * (i / 4)] = element<kDType>(lanes[l]->a, i);
    }
    for (int i = 0; i < 4; ++i) b[t + i % 2 + 8 * (i / 2)][g] = element<kDType>(lanes[l]->b, i);
  }
  for (int l = 0; l < 32; ++l) {
    for (int e = 0; e < 4; ++e) {
      const int row = l / 4 + 8 * (e / 2), column = 2 * (l % 4) + e % 2;
      double sum = lanes[l]->c[e];
      for (int k = 0; k < 16; ++k) sum += static_cast<double>(a[row][k]) * b[k][column];
      lanes[l]->c[e] = static_cast<float>(sum);
    }
  }
}

// c += a b, fp32 accumulation.
template <DType kDType>
ATTNJIT_DEVICE void multiply_accumulate(float (&c)[4], const FragmentA& a, const uint32 (&b)[2]) {
  Multiplication self{c, a.word, b};
  warp_collective("multiply_accumulate", self,
                  [](Multiplication*(&lanes)[32]) { multiply<kDType>(lanes); });
}

}  // namespace attnjit::kernel::ptx
