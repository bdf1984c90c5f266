#include "runtime/output_check.hpp"

#include <algorithm>
#include <cmath>

#include "reference/half.hpp"

namespace attnjit::runtime {
namespace {

constexpr std::size_t kPieces = 64, kPieceBytes = 64 * 1024;

double widen(DType dtype, std::uint16_t bits) {
  return dtype == DType::kFloat16 ? reference::widen_float16(bits)
                                  : reference::widen_bfloat16(bits);
}

double root_mean_square(DType dtype, std::span<const std::uint16_t> values) {
  double sum = 0;
  std::size_t count = 0;
  for (const std::uint16_t bits : values) {
    const double value = widen(dtype, bits);
    if (!std::isfinite(value)) continue;  // a gap
    sum += value * value;
    ++count;
  }
  return count == 0 ? 0 : std::sqrt(sum / static_cast<double>(count));
}

}  // namespace

std::vector<std::uint16_t> sample_output(const cuda::Driver& driver, const void* memory,
                                         std::size_t bytes, CUstream stream) {
  const bool whole = bytes <= kPieces * kPieceBytes;
  const std::size_t piece = whole ? bytes : kPieceBytes;
  const std::size_t pieces = whole ? 1 : kPieces;
  std::vector<std::uint16_t> values(pieces * piece / sizeof(std::uint16_t));
  for (std::size_t i = 0; i < pieces; ++i) {
    // The first piece at the beginning, the last one at the end.
    const std::size_t from = whole ? 0 : (bytes - piece) * i / (pieces - 1) / 2 * 2;
    cuda::copy_to_host(driver, values.data() + i * piece / sizeof(std::uint16_t),
                       static_cast<const std::byte*>(memory) + from, piece, stream);
  }
  return values;
}

bool outputs_agree(DType dtype, std::span<const std::uint16_t> expected,
                   std::span<const std::uint16_t> candidate) {
  // Some 16 units in the last place of a typical value.
  const double tolerance = 16 * reference::unit_roundoff(dtype);
  const double typical = root_mean_square(dtype, expected);
  return std::ranges::equal(expected, candidate, [&](std::uint16_t a, std::uint16_t b) {
    if (a == b) return true;
    const double want = widen(dtype, a);
    return std::abs(widen(dtype, b) - want) <= tolerance * (typical + std::abs(want));
  });
}

}  // namespace attnjit::runtime
