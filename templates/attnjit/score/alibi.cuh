#pragma once
#include "attnjit/ptx/memory.cuh"
#include "attnjit/score/alibi_params.h"
#include "attnjit/score/feature.cuh"
#include "attnjit/score/positions.cuh"

namespace attnjit::kernel {

// Subtracts the head's slope from a score for each key between its key and the diagonal. The slope
// is read when the head begins; with kLate it is read late, because no register can keep it through
// the product. kOneSided: keys past the diagonal are dropped, whatever is added to them.
template <ScoreShape kShape, bool kLate, bool kOneSided>
struct Alibi : Feature {
  static constexpr bool kPerHead = true, kLastFirst = true, kAdds = true;
  static constexpr bool kPackGqa = kShape.pack_gqa_heads > 1;
  static constexpr bool kInExponents = kOneSided && !kPackGqa;
  static constexpr int kSlopes = kPackGqa ? kShape.lines() : 1;

  const AlibiParams& params;
  float slopes[kSlopes];     // of the head, or of the line's with pack_gqa
  float distances[kSlopes];  // of the tile's first key from the diagonal
  float slope;               // of the head, in log2 units
  float distance;            // of the thread's first score from the diagonal

  ATTNJIT_DEVICE explicit Alibi(const AlibiParams& p)
      : params(p), slopes{}, distances{}, slope(0.0f), distance(0.0f) {}

  ATTNJIT_DEVICE float slope_of(const Block& block, int head) const {
    return ptx::load_global(params.slopes + block.batch * params.batch_stride +
                            head * params.head_stride);
  }
  ATTNJIT_DEVICE RowOwner owner_of_line(const Block& block, int line) const {
    return owner_of<kShape.pack_gqa_heads>(block, block.thread_row + ScoreShape(kShape).row(line));
  }
  ATTNJIT_DEVICE void begin(const Block& block) {
    if constexpr (!kPackGqa && !kLate) slopes[0] = slope_of(block, block.head);
  }
  ATTNJIT_DEVICE void fetch(const Block& block, int, TileUse) {
    if constexpr (kPackGqa) {
#pragma unroll
      for (int line = 0; line < kSlopes; ++line) {
        slopes[line] = slope_of(block, owner_of_line(block, line).head);
      }
    }
  }
  // The thread's first key, minus off.
  ATTNJIT_DEVICE int origin_of(const Block& block, int first_key) const {
    const int origin = first_key + block.thread_key - params.offset;
    return params.bottom_right ? origin - block.bottom_right() : origin;
  }
  ATTNJIT_DEVICE void begin_add(const Block& block, int first_key) {
    const int origin = origin_of(block, first_key);
    if constexpr (kPackGqa) {
#pragma unroll
      for (int line = 0; line < kSlopes; ++line) {
        distances[line] = static_cast<float>(owner_of_line(block, line).query - origin);
      }
    } else {
      if constexpr (kLate) slopes[0] = slope_of(block, block.head);
      distances[0] = static_cast<float>(block.thread_row - origin);
    }
  }
  ATTNJIT_DEVICE float added(float score, float scale, int line, int key) const {
    if constexpr (kPackGqa) {
      return fmaf(-slopes[line], fabsf(distances[line] - static_cast<float>(key)), score * scale);
    } else {
      const float keys = distances[0] + static_cast<float>(ScoreShape(kShape).row(line) - key);
      return fmaf(-slopes[0], kOneSided ? keys : fabsf(keys), score * scale);
    }
  }
  template <class S>
  ATTNJIT_DEVICE void add(const Block& block, S& scores, float scale, int first_key) {
    begin_add(block, first_key);
    for_each_score<kShape>(
        scores, [&](float& score, int line, int key) { score = added(score, scale, line, key); });
  }
  ATTNJIT_DEVICE void begin_exponents(const Block& block, int first_key) {
    if constexpr (!kInExponents) return;
    if constexpr (kLate) slopes[0] = slope_of(block, block.head);
    slope = slopes[0] * kLog2E;
    distance = static_cast<float>(block.thread_row - origin_of(block, first_key));
  }
  // The addend is a difference of two products, whose rounding is negligible up to such a slope.
  ATTNJIT_DEVICE bool in_exponents_fit() const { return fabsf(slope) <= 64.0f; }
  ATTNJIT_DEVICE float line_addend(float start, int) const { return fmaf(-slope, distance, start); }
  ATTNJIT_DEVICE float addend(float start, int line, int key) const {
    return fmaf(slope, static_cast<float>(key - ScoreShape(kShape).row(line)), start);
  }
};

}  // namespace attnjit::kernel
