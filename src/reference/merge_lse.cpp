#include "reference/merge_lse.hpp"

#include <cmath>
#include <limits>

#include "tensor/half.hpp"

namespace attnjit::reference {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

/// A part's row: where it lies, and its lse.
struct PartRow {
  const Tensor* tensor;
  std::int64_t first;  // element
  double lse;
};

std::vector<PartRow> rows_at(const MergeLseArgs& args, std::int64_t b, std::int64_t h,
                             std::int64_t i) {
  const auto& [batch, heads, rows, columns] = args.parts.shape;
  const std::int64_t row = (b * heads + h) * rows + i;
  const auto element = [&](const Tensor& t) {
    return b * t.strides[0] + h * t.strides[1] + i * t.strides[2];
  };
  std::vector<PartRow> found;
  if (args.carry) found.push_back({&*args.carry, element(*args.carry), args.carry_lse[row]});
  for (std::int64_t s = 0; s < args.num_parts; ++s) {
    found.push_back({&args.parts, s * args.part_stride + element(args.parts),
                     args.part_lses[s * batch * heads * rows + row]});
  }
  return found;
}

double log_of_sum(const std::vector<PartRow>& parts) {
  double highest = kMinusInfinity;
  for (const PartRow& part : parts) highest = std::fmax(highest, part.lse);
  if (highest == kMinusInfinity) return highest;
  double sum = 0;
  for (const PartRow& part : parts) sum += std::exp(part.lse - highest);
  return highest + std::log(sum);
}

}  // namespace

MergedRows merge_lse(const MergeLseArgs& args) {
  const auto& [batch, heads, rows, columns] = args.parts.shape;
  MergedRows merged;
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t i = 0; i < rows; ++i) {
        const std::vector<PartRow> parts = rows_at(args, b, h, i);
        merged.lse.push_back(log_of_sum(parts));
        for (std::int64_t c = 0; c < columns; ++c) {
          double sum = 0;
          for (const PartRow& part : parts) {
            if (part.lse == kMinusInfinity) continue;
            const Tensor& t = *part.tensor;
            sum += std::exp(part.lse - merged.lse.back()) *
                   tensor::load(t.data, t.dtype, part.first + c * t.strides[3]);
          }
          merged.out.push_back(sum);
        }
      }
    }
  }
  return merged;
}

}  // namespace attnjit::reference
