#pragma once
#include "attnjit/ptx/device.cuh"
#include "attnjit/ptx/math.cuh"
#include "attnjit/types.h"

namespace attnjit::kernel {

// A number for each of a thread's rows of fragments: [row tile][h].
template <int kRowTiles>
using RowValues = float[kRowTiles][2];

// A thread's share of a tile that the matrix instructions compute or multiply by, in fp32: row
// tiles of 16 rows, groups of 8 columns. In each, lane l holds rows l / 4 (h = 0) and l / 4 + 8 (h
// = 1) and columns 2 (l % 4) and the next one: elements 2 h and 2 h + 1.
template <int kRowTiles, int kGroups>
struct Fragments {
  float element[kRowTiles][kGroups][4];

  // Groups of a row tile.
  ATTNJIT_DEVICE auto& operator[](int m) { return element[m]; }
  ATTNJIT_DEVICE const auto& operator[](int m) const { return element[m]; }

  // visit(element, m, n, e) for each element, with compile-time indices once unrolled.
  template <class Visit>
  ATTNJIT_DEVICE void for_each(Visit visit) {
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int n = 0; n < kGroups; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) visit(element[m][n][e], m, n, e);
      }
    }
  }

  ATTNJIT_DEVICE void operator=(float value) {
    for_each([=](float& x, int, int, int) { x = value; });
  }
  ATTNJIT_DEVICE void operator*=(float factor) {
    for_each([=](float& x, int, int, int) { x *= factor; });
  }
  // The largest of a thread's elements in row h of row tile m.
  ATTNJIT_DEVICE float row_max(int m, int h) const {
    float highest = -ptx::infinity();
#pragma unroll
    for (int n = 0; n < kGroups; ++n) {
      highest = fmaxf(highest, fmaxf(element[m][n][2 * h], element[m][n][2 * h + 1]));
    }
    return highest;
  }
  // Multiplies row h of row tile m.
  ATTNJIT_DEVICE void scale_row(int m, int h, float factor) {
#pragma unroll
    for (int n = 0; n < kGroups; ++n) {
      element[m][n][2 * h] *= factor;
      element[m][n][2 * h + 1] *= factor;
    }
  }
  ATTNJIT_DEVICE void operator*=(const Fragments& other) {
    for_each([&](float& x, int m, int n, int e) { x *= other.element[m][n][e]; });
  }
  ATTNJIT_DEVICE void operator+=(const Fragments& other) {
    for_each([&](float& x, int m, int n, int e) { x += other.element[m][n][e]; });
  }
};

}  // namespace attnjit::kernel
