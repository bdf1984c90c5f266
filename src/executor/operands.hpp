#pragma once
#include <array>
#include <functional>
#include <span>
#include <vector>

#include "executor/shared_memory.hpp"

namespace attnjit::executor {

/// The depth of a product of wgmma.
inline constexpr int kDepth = 16;

/// Reads the 16 bytes at an address of shared memory.
using LoadChunk = std::function<void(unsigned address, std::span<std::byte, 16> to)>;

/// The value of a 16-bit element.
float widen(std::uint16_t bits, bool bfloat16);

/// A tile in shared memory as the functions of ptx/wgmma.cuh describe it: with lines of 128
/// or 64 bytes and the swizzle of that name, or with lines of 16. All functions throw Violation for
/// a descriptor that does not name such a tile.
class OperandTile {
 public:
  explicit OperandTile(unsigned long long descriptor);

  /// Elements [line][depth] of `lines` lines, whose 16 depth columns lie side by side.
  std::vector<float> load_lines(int lines, bool bfloat16, const LoadChunk& load) const;
  /// Elements [depth][column] of `columns` columns, which lie side by side in the 16 lines of the
  /// depth, a line of each slab after another.
  std::vector<float> load_columns(int columns, bool bfloat16, const LoadChunk& load) const;

 private:
  bool is_swizzled() const;
  unsigned swizzled(unsigned address) const;

  unsigned line_bytes_;
  unsigned address_;
  unsigned leading_;  // bytes between slabs
  unsigned stride_;   // bytes between groups of 8 lines
};

}  // namespace attnjit::executor
