#pragma once
#include "attnjit/ptx/memory.cuh"
#include "attnjit/score/alibi_params.h"
#include "attnjit/score/feature.cuh"
#include "attnjit/score/positions.cuh"

namespace attnjit::kernel {

// Takes the head's slope off a score for each key between it and the diagonal. The slope is read
// when the head begins, unless kLate: then there is no register to keep it through the product.
template <ScoreShape kShape, bool kLate>
struct Alibi : Feature {
  static constexpr bool kPerHead = true, kLastFirst = true;
  static constexpr bool kPacked = kShape.packed_heads > 1;
  static constexpr int kSlopes = kPacked ? kShape.lines() : 1;

  const AlibiParams& params;
  float slopes[kSlopes];  // of the head, or of the line's where heads are packed

  ATTNJIT_DEVICE explicit Alibi(const AlibiParams& p) : params(p), slopes{} {}

  ATTNJIT_DEVICE float slope_of(const Block& block, int head) const {
    return ptx::load_global(params.slopes + block.batch * params.batch_stride +
                            head * params.head_stride);
  }
  ATTNJIT_DEVICE RowOwner owner_of_line(const Block& block, int line) const {
    return owner_of<kShape.packed_heads>(block, block.thread_row + kShape.row(line));
  }
  ATTNJIT_DEVICE void begin(const Block& block) {
    if constexpr (!kPacked && !kLate) slopes[0] = slope_of(block, block.head);
  }
  ATTNJIT_DEVICE void fetch(const Block& block, int, TileUse) {
    if constexpr (kPacked) {
#pragma unroll
      for (int line = 0; line < kSlopes; ++line) {
        slopes[line] = slope_of(block, owner_of_line(block, line).head);
      }
    }
  }
  template <class S>
  ATTNJIT_DEVICE void add(const Block& block, S& scores, int first_key) {
    int origin = first_key + block.thread_key - params.offset;  // the key, less off
    if (params.bottom_right) origin -= block.bottom_right();
    if constexpr (kPacked) {
      float distances[kSlopes];
#pragma unroll
      for (int line = 0; line < kSlopes; ++line) {
        distances[line] = static_cast<float>(owner_of_line(block, line).query - origin);
      }
      for_each_score<kShape>(scores, [&](float& score, int line, int key) {
        score -= slopes[line] * fabsf(distances[line] - static_cast<float>(key));
      });
    } else {
      if constexpr (kLate) slopes[0] = slope_of(block, block.head);
      const float distance = static_cast<float>(block.thread_row - origin);
      for_each_score<kShape>(scores, [&](float& score, int line, int key) {
        score -= slopes[0] * fabsf(distance + static_cast<float>(kShape.row(line) - key));
      });
    }
  }
};

}  // namespace attnjit::kernel
