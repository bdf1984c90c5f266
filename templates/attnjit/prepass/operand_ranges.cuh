#pragma once
#include "attnjit/prepass/clear_count.cuh"
#include "attnjit/prepass/operand_ranges_config.h"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/ptx/reduce.cuh"
#include "attnjit/ptx/sync.cuh"
#include "attnjit/ptx/thread.cuh"

// Writes the elements of operands of a keep expression one after another, and the least and the
// greatest of each kRangeElements of them, by which tiles are dropped without a look at elements.
// Sets the counter to 0 from which thread blocks of the next kernel take their work.
//
//   operand  [size 0][size 1][size 2][elements], any strides
//   lines    [size 0][size 1][size 2][length], past the end the last element again
//   ranges   [size 0][size 1][size 2][length / kRangeElements]
//
// A warp has one range, a lane two of its elements.
namespace attnjit::kernel {

template <OperandRangesConfig kConfig>
struct OperandRanges {
  const OperandRangesParams& params;

  ATTNJIT_DEVICE void run() const {
    ptx::let_next_kernel_begin();
    clear_count(params.work_taken);
    int range = static_cast<int>(ptx::block_index()) * kConfig.num_warps + ptx::thread_index() / 32;
    int n = 0, begin = 0;
    while (n < kMaxExpressionOperands && range >= params.operands[n].end_range) {
      begin = params.operands[n++].end_range;
    }
    if (n < kMaxExpressionOperands) write(params.operands[n], range - begin);
  }

 private:
  ATTNJIT_DEVICE static void write(const RangedOperand& operand, int range) {
    const int ranges = operand.length / kRangeElements;
    const uint8* row = row_of(operand, range / ranges);
    const int first = range % ranges * kRangeElements + ptx::lane_index();
    const int last = operand.sizes[3] - 1;
    const int a = element(operand, row, first < last ? first : last);
    const int b = element(operand, row, first + 32 < last ? first + 32 : last);
    int32* line = operand.lines + int64{range} * kRangeElements + ptx::lane_index();
    ptx::store_global(line, a);
    ptx::store_global(line + 32, b);
    const int least = ptx::warp_least(a < b ? a : b);
    const int greatest = ptx::warp_greatest(a < b ? b : a);
    if (ptx::lane_index() != 0) return;
    ptx::store_global(reinterpret_cast<ptx::Vector8*>(operand.ranges + range),
                      ptx::Vector8{{static_cast<uint32>(least), static_cast<uint32>(greatest)}});
  }

  ATTNJIT_DEVICE static const uint8* row_of(const RangedOperand& operand, int plane) {
    const auto* row = static_cast<const uint8*>(operand.data);
#pragma unroll
    for (int axis = 2; axis >= 0; --axis) {
      row += plane % operand.sizes[axis] * operand.strides[axis];
      plane /= operand.sizes[axis];
    }
    return row;
  }

  ATTNJIT_DEVICE static int element(const RangedOperand& operand, const uint8* row, int index) {
    const uint8* address = row + index * operand.strides[3];
    if (operand.element_bytes == 1) return ptx::load_global(address) != 0;
    return ptx::load_global(reinterpret_cast<const int*>(address));
  }
};

template <OperandRangesConfig kConfig>
ATTNJIT_DEVICE void operand_ranges(const OperandRangesParams& params) {
  OperandRanges<kConfig>{params}.run();
}

}  // namespace attnjit::kernel
