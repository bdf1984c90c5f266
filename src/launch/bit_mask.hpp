#pragma once
#include "attnjit/prepass/mask_to_bits_config.h"
#include "launch/mask_tiles.hpp"

namespace attnjit::launch {

/// The orders in which kernels read the bits of a mask: by rows, and by keys, see
/// prepass/mask_to_bits.cuh.
struct MaskOrders {
  bool by_rows = true, by_keys = false;
};

/// A bit mask in memory, as byte offsets: bits by rows, bits by keys, then classes. A multiple
/// of 16 bytes lies before each.
struct BitMaskLayout {
  MaskOrders orders;
  std::int64_t columns = 0, classes = 0, bytes = 0;

  BitMaskLayout(const MaskTiles& tiles, MaskOrders of_bits)
      : orders(of_bits),
        columns(orders.by_rows ? tiles.words() * std::int64_t{sizeof(kernel::uint32)} : 0),
        classes(columns +
                (orders.by_keys ? tiles.columns() * std::int64_t{sizeof(kernel::uint64)} : 0)),
        bytes(classes + tiles.classes()) {}
};

/// The layout in a call whose kernel with `config` converts the mask.
inline BitMaskLayout mask_layout(const kernel::MaskToBitsConfig& config,
                                 const problem::Problem& problem) {
  return {MaskTiles(problem.mask), {config.by_rows, config.by_keys}};
}

/// The place that lies `offset` bytes past `memory` of the device. An address there may be any
/// number, so there is no arithmetic on pointers.
template <class T>
T* at_offset(const void* memory, std::int64_t offset) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  return reinterpret_cast<T*>(address + static_cast<std::uintptr_t>(offset));
}

/// Parameters of the kernel that converts `mask`, which lies at `data`, to `memory`.
kernel::MaskToBitsParams mask_to_bits_params(const problem::Operand& mask, const void* data,
                                             const BitMaskLayout& layout, void* memory);
/// The thread blocks of that kernel.
std::int64_t mask_to_bits_blocks(const problem::Operand& mask);

/// The mask of `problem`, as bits in `memory`, as the kernels of a call read it.
kernel::BackwardMaskParams bit_mask(const problem::Problem& problem, const BitMaskLayout& layout,
                                    const void* memory);

}  // namespace attnjit::launch
