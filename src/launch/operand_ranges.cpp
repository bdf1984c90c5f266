#include "launch/operand_ranges.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "attnjit/error.hpp"
#include "launch/bit_mask.hpp"
#include "launch/grid.hpp"

namespace attnjit::launch {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kRange = kernel::kRangeElements;

// An operand without elements has one all the same, which no pair asks for.
std::int64_t size_of(const problem::ExpressionOperand& operand, std::size_t axis) {
  return std::max<std::int64_t>(operand.sizes[axis], 1);
}

// All elements, and whatever row or key a tile has.
std::int64_t length_of(const std::vector<codegen::RangedAxis>& axes,
                       const problem::Problem& problem) {
  constexpr std::int64_t kMostTile = 256;
  std::int64_t most = std::max(problem.seqlen_q, problem.seqlen_kv);
  for (const codegen::RangedAxis& ranged : axes) {
    most = std::max(most, size_of(problem.keep_operands[ranged.operand], ranged.axis));
  }
  return (most + kMostTile - 1) / kRange * kRange + kRange;
}

std::int64_t num_lines(const codegen::RangedAxis& ranged, const problem::Problem& problem) {
  const problem::ExpressionOperand& operand = problem.keep_operands[ranged.operand];
  std::int64_t lines = 1;
  for (std::size_t axis = 0; axis < expr::kMaxRank; ++axis) {
    if (axis != ranged.axis) lines = std::min(lines * size_of(operand, axis), kMost);
  }
  return lines;
}

}  // namespace

OperandRangesLayout operand_ranges_layout(const std::vector<codegen::RangedAxis>& axes,
                                          const problem::Problem& problem) {
  const std::int64_t length = length_of(axes, problem);
  std::int64_t ranges = 0;
  for (const codegen::RangedAxis& axis : axes) {
    ranges = std::min(ranges + num_lines(axis, problem) * (length / kRange), kMost);
  }
  if (length >= kMost || ranges >= kMost) {
    throw Error(ErrorKind::kInvalidProblem,
                fmt::format("keep: its operands have too many elements; expected at most {} for "
                            "all together, each as long as the rows or keys",
                            kMost * kRange));
  }
  // Kernels read four elements of a line at a time.
  const std::int64_t lines = static_cast<std::int64_t>(
      align_up(static_cast<std::size_t>(ranges) * sizeof(kernel::IntRange)));
  return {.length = static_cast<std::int32_t>(length),
          .ranges = ranges,
          .lines = lines,
          .bytes = lines + ranges * kRange * static_cast<std::int64_t>(sizeof(kernel::int32))};
}

void set_operand_ranges(const std::vector<codegen::RangedAxis>& axes,
                        const problem::Problem& problem, void* memory,
                        kernel::ExpressionParams<kernel::kMaxExpressionOperands>& keep,
                        kernel::OperandRangesParams& prepass) {
  const OperandRangesLayout layout = operand_ranges_layout(axes, problem);
  prepass.work_taken = nullptr;
  std::int64_t begin = 0;  // range of the operand
  std::size_t count = 0;
  for (const codegen::RangedAxis& ranged : axes) {
    const problem::ExpressionOperand& operand = problem.keep_operands[ranged.operand];
    kernel::ExpressionOperand& read = keep.operands[ranged.operand];
    kernel::RangedOperand& written = prepass.operands[count++];
    auto* const ranges = at_offset<kernel::IntRange>(
        memory, begin * static_cast<std::int64_t>(sizeof(kernel::IntRange)));
    auto* const lines = at_offset<kernel::int32>(
        memory, layout.lines + begin * kRange * static_cast<std::int64_t>(sizeof(kernel::int32)));
    begin += num_lines(ranged, problem) * (layout.length / kRange);
    read.ranges = ranges;
    read.lines = lines;
    read.length = layout.length;
    written = {.data = read.data,
               .ranges = ranges,
               .lines = lines,
               .strides = {},
               .sizes = {1, 1, 1, static_cast<kernel::int32>(size_of(operand, ranged.axis))},
               .length = layout.length,
               .element_bytes = static_cast<kernel::int32>(element_size(operand.dtype)),
               .end_range = static_cast<kernel::int32>(begin)};
    written.strides[3] = read.strides[ranged.axis];
    // Planes are the other axes in their order, whose last ones vary fastest.
    std::size_t plane = 3;
    for (std::size_t axis = expr::kMaxRank; axis-- > 0;) {
      if (axis == ranged.axis) continue;
      written.sizes[--plane] = static_cast<kernel::int32>(size_of(operand, axis));
      written.strides[plane] = read.strides[axis];
    }
  }
  for (; count < kernel::kMaxExpressionOperands; ++count) {
    prepass.operands[count].end_range = 0;
  }
}

}  // namespace attnjit::launch
