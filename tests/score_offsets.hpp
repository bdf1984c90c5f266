#pragma once
#include <cmath>
#include <numbers>
#include <string>

#include "check/verdict.hpp"

namespace attnjit::test {

/// Offsets of scores in log2 units: those that a first tile of fp16 sums up within its bounds, and
/// those to either side.
inline constexpr double kScoreOffsets[] = {-60, -30, -15, 0, 15, 30, 60};

/// The keys whose scores move: all of them, or those on one side of key 64.
enum class MovedKeys { kAll, kFirst, kLast };

/// Gives the scores of `keys` a mean of `log2_units`: by the bias, or else by a column of q and k.
/// `problem` has 16-bit tensors and a scale of 1 / sqrt(head_dim).
inline void move_scores(instance::HostProblem& problem, double log2_units, MovedKeys keys) {
  using instance::BufferRole;
  const double natural = log2_units * std::numbers::ln2;
  const tensor::Random random(7);
  // A part of an axis of `tensor`.
  const auto part_of = [](Tensor tensor, int axis, std::int64_t begin, std::int64_t end) {
    const auto i = static_cast<std::size_t>(axis);
    tensor.data = static_cast<std::uint16_t*>(tensor.data) + begin * tensor.strides[i];
    tensor.shape[i] = end - begin;
    return tensor;
  };
  const std::int64_t count = problem.spec().seqlen_kv;
  const std::int64_t begin = keys == MovedKeys::kLast ? 64 : 0;
  const std::int64_t end = keys == MovedKeys::kFirst ? 64 : count;
  if (instance::HostBuffer* const bias = problem.find(BufferRole::kBias)) {
    tensor::fill_normal(part_of(bias->tensor(), 3, begin, end), random, natural, 1, 1);
    return;
  }
  const Tensor q = part_of(problem.find(BufferRole::kQ)->tensor(), 3, 0, 1);
  const Tensor k = part_of(problem.find(BufferRole::kK)->tensor(), 3, 0, 1);
  const auto width = static_cast<double>(problem.spec().head_dim);
  tensor::fill_normal(q, random, natural * std::sqrt(width), 0, 1);
  tensor::fill_normal(k, random, 0, 0, 1);
  tensor::fill_normal(part_of(k, 2, begin, end), random, 1, 0, 1);
}

/// The fault of a forward of moved scores, or nothing. The inputs are no longer
/// those that the problem was filled with.
inline std::string judge_moved(const instance::HostProblem& problem, unsigned jobs) {
  const auto verdict = check::judge_forward(problem, reference::Rows::every(), jobs);
  return verdict.out.text + verdict.lse.text + problem.check_guards() + problem.check_written();
}

/// move(offset, keys) for each pair of them.
template <class Move>
void for_each_move(Move move) {
  for (const double offset : kScoreOffsets) {
    for (const MovedKeys keys : {MovedKeys::kAll, MovedKeys::kFirst, MovedKeys::kLast}) {
      move(offset, keys);
    }
  }
}

}  // namespace attnjit::test
