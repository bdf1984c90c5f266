#include "runtime/tune/output_check.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "tensor/half.hpp"

namespace attnjit::runtime {
namespace {

constexpr std::size_t kSamples = 64, kSampleBytes = 64 * 1024;
constexpr std::size_t kNeighbours = 64;  // a row of most tensors, or a part of one

float widen(DType dtype, const std::byte* element) {
  if (dtype == DType::kFloat32) {
    float value = 0;
    std::memcpy(&value, element, sizeof(value));
    return value;
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, element, sizeof(bits));
  return static_cast<float>(dtype == DType::kFloat16 ? tensor::widen_float16(bits)
                                                     : tensor::widen_bfloat16(bits));
}

double root_mean_square(std::span<const float> values) {
  double sum = 0;
  std::size_t count = 0;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;  // a gap
    sum += value * value;
    ++count;
  }
  return count == 0 ? 0 : std::sqrt(sum / static_cast<double>(count));
}

}  // namespace

std::vector<float> sample_output(const cuda::Driver& driver, const OutputMemory& output,
                                 CUstream stream) {
  const bool whole = output.bytes <= kSamples * kSampleBytes;
  const std::size_t sample = whole ? output.bytes : kSampleBytes;
  const std::size_t samples = whole ? 1 : kSamples;
  const auto width = static_cast<std::size_t>(element_size(output.dtype));
  std::vector<std::byte> bytes(sample);
  std::vector<float> values;
  values.reserve(samples * sample / width);
  for (std::size_t i = 0; i < samples; ++i) {
    // The first sample at the beginning, the last one at the end.
    const std::size_t from =
        whole ? 0 : (output.bytes - sample) * i / (samples - 1) / width * width;
    cuda::copy_to_host(driver, bytes.data(), static_cast<const std::byte*>(output.data) + from,
                       sample, stream);
    for (std::size_t at = 0; at < sample; at += width) {
      values.push_back(widen(output.dtype, bytes.data() + at));
    }
  }
  return values;
}

bool outputs_agree(DType dtype, std::span<const float> expected, std::span<const float> candidate) {
  if (expected.size() != candidate.size()) return false;
  // Some 16 units in the last place of a typical value, of the whole or of its neighbours: under a
  // causal mask the first rows are much larger than most.
  const double tolerance = 16 * tensor::unit_roundoff(dtype);
  const double everywhere = root_mean_square(expected);
  for (std::size_t from = 0; from < expected.size(); from += kNeighbours) {
    const std::size_t count = std::min(kNeighbours, expected.size() - from);
    const double typical = std::max(everywhere, root_mean_square(expected.subspan(from, count)));
    for (std::size_t i = from; i < from + count; ++i) {
      const float want = expected[i], value = candidate[i];
      if (value == want || (std::isnan(value) && std::isnan(want))) continue;
      // Also false of a NaN.
      if (!(std::abs(double{value} - want) <= tolerance * (typical + std::abs(want)))) return false;
    }
  }
  return true;
}

}  // namespace attnjit::runtime
