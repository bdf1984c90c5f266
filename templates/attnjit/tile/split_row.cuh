#pragma once
#include "attnjit/ptx/memory.cuh"
#include "attnjit/ptx/thread.cuh"
#include "attnjit/types.h"

namespace attnjit::kernel {

// A row of kFirst and one of kSecond elements of 16 bits that a warp moves as one: in parts of 16
// bytes where rows are aligned to these, else element by element.
template <int kFirst, int kSecond, bool kAligned>
struct SplitRow {
  struct Element {
    uint16 bits;
  };
  using Part = TypeIf<kAligned, ptx::Vector16, Element>;

  static constexpr int kColumns = kAligned ? 8 : 1;  // of a part
  static constexpr int kFirstParts = kFirst / kColumns;
  static constexpr int kParts = kFirstParts + kSecond / kColumns;
  // Elements from row to row where rows of one kind lie one after another.
  static constexpr int kFirstRow = round_up(kFirst, 8), kSecondRow = round_up(kSecond, 8);

  // Calls visit(whether it is of the second row, its first column) for each part of this lane.
  template <class Visit>
  ATTNJIT_DEVICE static void for_each_part(Visit visit) {
#pragma unroll
    for (int first = 0; first < kParts; first += 32) {
      const int part = first + ptx::lane_index();
      const bool second = part >= kFirstParts;
      if (part < kParts) visit(second, (second ? part - kFirstParts : part) * kColumns);
    }
  }

  ATTNJIT_DEVICE static Part load(const uint16* address) {
    if constexpr (kAligned) {
      return ptx::load_global(reinterpret_cast<const ptx::Vector16*>(address));
    } else {
      return {ptx::load_global(address)};
    }
  }
  ATTNJIT_DEVICE static void store(uint16* address, Part part) {
    if constexpr (kAligned) {
      ptx::store_global(reinterpret_cast<ptx::Vector16*>(address), part);
    } else {
      ptx::store_global(address, part.bits);
    }
  }
};

}  // namespace attnjit::kernel
