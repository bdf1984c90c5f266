#pragma once
#include "attnjit/prepared_mask.hpp"
#include "attnjit/score/packed_mask_params.h"
#include "launch/mask_tiles.hpp"

namespace attnjit::launch {

/// The places of a prepared mask in its memory, as byte offsets: bits by rows, then on request by
/// keys, then classes.
struct PreparedMaskLayout {
  std::int64_t key_words = 0, classes = 0, bytes = 0;

  PreparedMaskLayout(const MaskTiles& tiles, bool by_keys)
      : key_words(tiles.words() * kWord),
        classes(key_words + (by_keys ? tiles.key_words() * kWord : 0)),
        bytes(classes + tiles.classes()) {}

 private:
  static constexpr std::int64_t kWord = sizeof(kernel::uint32);
};

/// The place that lies `offset` bytes past `memory` of the device. An address there may be any
/// number, so there is no arithmetic on pointers.
template <class T>
T* at_offset(const void* memory, std::int64_t offset) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  return reinterpret_cast<T*>(address + static_cast<std::uintptr_t>(offset));
}

/// Bits and classes of the mask of `problem`, which lie at those addresses.
kernel::PackedMaskParams packed_mask(const problem::Problem& problem, const kernel::uint32* words,
                                     const kernel::uint8* classes);

/// The same of a prepared mask.
kernel::PreparedMaskParams prepared_mask(const problem::Problem& problem, const PreparedMask& mask);

}  // namespace attnjit::launch
