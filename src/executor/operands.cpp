#include "executor/operands.hpp"

#include <fmt/format.h>

#include "executor/violation.hpp"
#include "tensor/half.hpp"

namespace attnjit::executor {
namespace {

constexpr unsigned kLineBytes = 128;
constexpr unsigned kShortLineBytes = 16;
constexpr int kLineColumns = 64;
constexpr int kChunkColumns = 8;  // 16 bytes

// The 14 bits of a descriptor from `bit` on, which count 16 bytes.
unsigned bytes_at(unsigned long long descriptor, int bit) {
  return static_cast<unsigned>(descriptor >> bit & 0x3fff) * 16;
}

// The chunk of a line is changed by the number of the line in its group of 8.
unsigned swizzled(unsigned address) { return address ^ (address >> 3 & 0x70); }

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
    : swizzled_((descriptor >> 62) == 1),
      address_(bytes_at(descriptor, 0)),
      leading_(bytes_at(descriptor, 16)),
      stride_(bytes_at(descriptor, 32)) {
  constexpr unsigned long long kAddressing = 0x00003fff'3fff3fffull;
  const unsigned long long layout = descriptor & ~kAddressing;
  if (layout != 0 && layout != 1ull << 62) {
    throw Violation(
        fmt::format("gets {:#018x}, which is no descriptor of a tile without a swizzle "
                    "or with that of 128 bytes",
                    descriptor));
  }
  if (!swizzled_) {
    if (leading_ == 0 && stride_ == 8 * kShortLineBytes) return;
    throw Violation(
        fmt::format("gets a tile without a swizzle whose 8 columns of the depth are {} "
                    "bytes apart and whose groups of 8 lines {}; 0 and 128 are known",
                    leading_, stride_));
  }
  if (stride_ != 8 * kLineBytes) {
    throw Violation(fmt::format(
        "gets a tile whose groups of 8 lines are {} bytes apart, and not 1024", stride_));
  }
  if (address_ % (8 * kLineBytes) >= kLineBytes) {
    throw Violation(fmt::format(
        "gets a tile at {:+} of shared memory: its lines do not begin at a multiple of 1024",
        static_cast<std::int64_t>(address_) - SharedMemory::kBase));
  }
}

std::vector<float> OperandTile::load_lines(int lines, bool bfloat16, const LoadChunk& load) const {
  constexpr unsigned kDepthBytes = kDepth * 2;
  std::vector<float> elements(static_cast<std::size_t>(lines) * kDepth);
  if (!swizzled_) {
    for (int line = 0; line < lines; ++line) {
      float* const to = &elements[static_cast<std::size_t>(line) * kDepth];
      for (int half : {0, kChunkColumns}) {
        load_chunk(address_ + line * kShortLineBytes, bfloat16, load, to + half);
      }
    }
    return elements;
  }
  if (address_ % kLineBytes % kDepthBytes != 0) {
    throw Violation(
        fmt::format("gets a tile that begins at byte {} of its lines; 16 columns begin "
                    "at a multiple of 32",
                    address_ % kLineBytes));
  }
  for (int line = 0; line < lines; ++line) {
    const unsigned at = address_ + line / 8 * stride_ + line % 8 * kLineBytes;
    float* const to = &elements[static_cast<std::size_t>(line) * kDepth];
    load_chunk(swizzled(at), bfloat16, load, to);
    load_chunk(swizzled(at + 16), bfloat16, load, to + kChunkColumns);
  }
  return elements;
}

std::vector<float> OperandTile::load_columns(int columns, bool bfloat16,
                                             const LoadChunk& load) const {
  if (!swizzled_) throw Violation("gets a tile of columns without the 128-byte swizzle");
  if (address_ % kLineBytes != 0) {
    throw Violation(fmt::format(
        "gets a tile that begins at byte {} of its lines; with the depth across the lines it "
        "begins with them",
        address_ % kLineBytes));
  }
  std::vector<float> elements(static_cast<std::size_t>(columns) * kDepth);
  for (int depth = 0; depth < kDepth; ++depth) {
    const unsigned line = address_ + depth / 8 * stride_ + depth % 8 * kLineBytes;
    for (int column = 0; column < columns; column += kChunkColumns) {
      const unsigned at = line + column / kLineColumns * leading_ + column % kLineColumns * 2;
      load_chunk(swizzled(at), bfloat16, load,
                 &elements[static_cast<std::size_t>(depth) * columns + column]);
    }
  }
  return elements;
}

}  // namespace attnjit::executor
