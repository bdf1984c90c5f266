#include "executor/operands.hpp"

#include <fmt/format.h>

#include "executor/violation.hpp"
#include "tensor/half.hpp"

namespace attnjit::executor {
namespace {

constexpr unsigned kShortLineBytes = 16;
constexpr int kChunkColumns = 8;                                    // 16 bytes
constexpr unsigned long long kAddressing = 0x00003fff'3fff3fffull;  // bits of a descriptor

// The 14 bits of a descriptor from `bit` on, which count 16 bytes.
unsigned bytes_at(unsigned long long descriptor, int bit) {
  return static_cast<unsigned>(descriptor >> bit & 0x3fff) * 16;
}

// Bytes of the lines of a descriptor's layout, 0 for one that is unknown.
unsigned line_bytes_of(unsigned long long layout) {
  switch (layout) {
    case 0:
      return kShortLineBytes;
    case 1ull << 62:
      return 128;
    case 2ull << 62:
      return 64;
    default:
      return 0;
  }
}

void load_chunk(unsigned address, bool bfloat16, const LoadChunk& load, float* to) {
  std::array<std::uint16_t, kChunkColumns> elements;
  load(address, std::as_writable_bytes(std::span(elements)));
  for (int i = 0; i < kChunkColumns; ++i) to[i] = widen(elements[i], bfloat16);
}

}  // namespace

float widen(std::uint16_t bits, bool bfloat16) {
  return bfloat16 ? tensor::widen_bfloat16(bits) : tensor::widen_float16(bits);
}

OperandTile::OperandTile(unsigned long long descriptor)
    : line_bytes_(line_bytes_of(descriptor & ~kAddressing)),
      address_(bytes_at(descriptor, 0)),
      leading_(bytes_at(descriptor, 16)),
      stride_(bytes_at(descriptor, 32)) {
  if (line_bytes_ == 0) {
    throw Violation(
        fmt::format("gets {:#018x}, which is no descriptor of a tile without a swizzle "
                    "or with that of 64 or 128 bytes",
                    descriptor));
  }
  if (!is_swizzled()) {
    if (leading_ == 0 && stride_ == 8 * kShortLineBytes) return;
    throw Violation(
        fmt::format("gets a tile without a swizzle whose 8 columns of the depth are {} "
                    "bytes apart and whose groups of 8 lines {}; 0 and 128 are known",
                    leading_, stride_));
  }
  const unsigned group_bytes = 8 * line_bytes_;
  if (stride_ != group_bytes) {
    throw Violation(
        fmt::format("gets a tile whose groups of 8 lines are {} bytes apart, and not {}", stride_,
                    group_bytes));
  }
  if (address_ % group_bytes >= line_bytes_) {
    throw Violation(fmt::format(
        "gets a tile at {:+} of shared memory: its lines do not begin at a multiple of {}",
        static_cast<std::int64_t>(address_) - SharedMemory::kBase, group_bytes));
  }
}

bool OperandTile::is_swizzled() const { return line_bytes_ != kShortLineBytes; }

// The chunk of a line is changed by the number of the group of 128 bytes that it lies in.
unsigned OperandTile::swizzled(unsigned address) const {
  return address ^ (address >> 3 & (line_bytes_ - kShortLineBytes));
}

std::vector<float> OperandTile::load_lines(int lines, bool bfloat16, const LoadChunk& load) const {
  constexpr unsigned kDepthBytes = kDepth * 2;
  std::vector<float> elements(static_cast<std::size_t>(lines) * kDepth);
  if (!is_swizzled()) {
    for (int line = 0; line < lines; ++line) {
      float* const to = &elements[static_cast<std::size_t>(line) * kDepth];
      for (int half : {0, kChunkColumns}) {
        load_chunk(address_ + line * kShortLineBytes, bfloat16, load, to + half);
      }
    }
    return elements;
  }
  if (address_ % line_bytes_ % kDepthBytes != 0) {
    throw Violation(
        fmt::format("gets a tile that begins at byte {} of its lines; 16 columns begin "
                    "at a multiple of 32",
                    address_ % line_bytes_));
  }
  for (int line = 0; line < lines; ++line) {
    const unsigned at = address_ + line / 8 * stride_ + line % 8 * line_bytes_;
    float* const to = &elements[static_cast<std::size_t>(line) * kDepth];
    load_chunk(swizzled(at), bfloat16, load, to);
    load_chunk(swizzled(at + 16), bfloat16, load, to + kChunkColumns);
  }
  return elements;
}

std::vector<float> OperandTile::load_columns(int columns, bool bfloat16,
                                             const LoadChunk& load) const {
  if (!is_swizzled()) throw Violation("gets a tile of columns without a swizzle");
  if (address_ % line_bytes_ != 0) {
    throw Violation(fmt::format(
        "gets a tile that begins at byte {} of its lines; with the depth across the lines it "
        "begins with them",
        address_ % line_bytes_));
  }
  const int slab = static_cast<int>(line_bytes_ / 2);
  std::vector<float> elements(static_cast<std::size_t>(columns) * kDepth);
  for (int depth = 0; depth < kDepth; ++depth) {
    const unsigned line = address_ + depth / 8 * stride_ + depth % 8 * line_bytes_;
    for (int column = 0; column < columns; column += kChunkColumns) {
      const unsigned at = line + column / slab * leading_ + column % slab * 2;
      load_chunk(swizzled(at), bfloat16, load,
                 &elements[static_cast<std::size_t>(depth) * columns + column]);
    }
  }
  return elements;
}

}  // namespace attnjit::executor
