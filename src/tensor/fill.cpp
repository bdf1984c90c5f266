#include "tensor/fill.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "base/parallel.hpp"
#include "tensor/half.hpp"

namespace attnjit::tensor {
namespace {

using Shape = std::array<std::int64_t, 4>;

constexpr std::int64_t kBlock = 128;     // side of the tiles of MaskKind::kBlocks
constexpr std::int64_t kRun = 13;        // keys per run of MaskKind::kScattered, coprime to tiles
constexpr std::int64_t kDeadPeriod = 5;  // every fifth row is dead ...
constexpr std::int64_t kDeadPhase = 2;   // ... from this one on
constexpr double kPlantedShare = 0.1;    // of a bias
constexpr double kHugeLogit = 10000;
constexpr double kVeryNegativeMean = -300, kGrade = -16;

template <std::size_t kSize>
std::optional<std::size_t> find_name(const std::array<std::string_view, kSize>& names,
                                     std::string_view name) {
  const auto found = std::find(names.begin(), names.end(), name);
  return found == names.end() ? std::nullopt : std::optional<std::size_t>(found - names.begin());
}

// Position of a row; the element's key comes on top.
struct RowPlace {
  std::int64_t batch;
  std::int64_t head;
  std::int64_t query;
  std::int64_t offset;  // in elements, of the row's first one
  std::uint64_t index;  // logical, of the row's first element
};

// Sizes with every axis of stride 0 folded to 1.
Shape distinct_shape(const Tensor& tensor) {
  Shape shape = tensor.shape;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    if (tensor.strides[axis] == 0) {
      shape[axis] = std::min<std::int64_t>(shape[axis], 1);
    }
  }
  return shape;
}

template <typename Body>
void for_each_row(const Tensor& tensor, unsigned jobs, const Body& body) {
  const Shape shape = distinct_shape(tensor);
  const std::int64_t rows = shape[0] * shape[1] * shape[2];
  const std::int64_t step = std::max<std::int64_t>(4096 / std::max<std::int64_t>(shape[3], 1), 1);
  base::parallel_for(
      static_cast<std::size_t>((rows + step - 1) / step), jobs, [&](std::size_t task) {
        const std::int64_t first = static_cast<std::int64_t>(task) * step;
        for (std::int64_t r = first; r < std::min(first + step, rows); ++r) {
          RowPlace place{r / shape[2] / shape[1], r / shape[2] % shape[1], r % shape[2], 0,
                         static_cast<std::uint64_t>(r * shape[3])};
          place.offset = place.batch * tensor.strides[0] + place.head * tensor.strides[1] +
                         place.query * tensor.strides[2];
          body(place, shape[3]);
        }
      });
}

// Whether a mask keeps an element, as a pure function of its place.
class MaskRule {
 public:
  MaskRule(MaskKind kind, double density, Random random, const Shape& shape)
      : kind_(usable(kind, shape)), density_(density), random_(random), shape_(shape) {}

  bool keep(const RowPlace& row, std::int64_t key) const {
    const auto plane = static_cast<std::uint64_t>(row.batch * shape_[1] + row.head);
    switch (kind_) {
      case MaskKind::kAllTrue:
        return true;
      case MaskKind::kAllFalse:
        return false;
      case MaskKind::kSuffix:
        return key <= random_.below(plane, shape_[3]);
      case MaskKind::kScattered:
        return key != 0 && random_.stream(plane).uniform(key / kRun) < density_;
      case MaskKind::kBlocks:
        return keep_block(plane, row.query / kBlock, key / kBlock);
      case MaskKind::kDeadRows:
        return row.query % kDeadPeriod != kDeadPhase && keep_random(row, key);
      case MaskKind::kDeadHead:
        return row.head != row.batch % shape_[1] && keep_random(row, key);
      case MaskKind::kDeadBatch:
        return row.batch != shape_[0] - 1 && keep_random(row, key);
      case MaskKind::kBand:
        return keep_band(row.query, key);
      case MaskKind::kRandom:
      case MaskKind::kTopBias:
        break;
    }
    return keep_random(row, key);
  }

 private:
  static MaskKind usable(MaskKind kind, const Shape& shape) {
    const bool needs_batch = kind == MaskKind::kDeadBatch && shape[0] == 1;
    const bool needs_heads = kind == MaskKind::kDeadHead && shape[1] == 1;
    const bool needs_queries =
        (kind == MaskKind::kDeadRows || kind == MaskKind::kBand) && shape[2] == 1;
    const bool needs_keys = (kind == MaskKind::kSuffix || kind == MaskKind::kScattered ||
                             kind == MaskKind::kBlocks || kind == MaskKind::kBand) &&
                            shape[3] == 1;
    return needs_batch || needs_heads || needs_queries || needs_keys ? MaskKind::kRandom : kind;
  }

  bool keep_random(const RowPlace& row, std::int64_t key) const {
    return random_.uniform(row.index + static_cast<std::uint64_t>(key)) < density_;
  }

  // Every third column of tiles is off, so that tiles go on, off and on again; others at random.
  bool keep_block(std::uint64_t plane, std::int64_t tile_q, std::int64_t tile_kv) const {
    const auto place =
        static_cast<std::uint64_t>(tile_q) << 32 | static_cast<std::uint64_t>(tile_kv);
    return tile_kv % 3 != 1 && random_.stream(plane).uniform(place) < density_;
  }

  bool keep_band(std::int64_t query, std::int64_t key) const {
    const std::int64_t diagonal = query + shape_[3] - shape_[2];
    return key <= diagonal &&
           key > diagonal - std::llround(density_ * static_cast<double>(shape_[3]));
  }

  MaskKind kind_;
  double density_;
  Random random_;
  Shape shape_;
};

// The value of a bias element, as a pure function of its place.
class BiasRule {
 public:
  BiasRule(BiasKind kind, Random random, const Shape& shape, DType dtype)
      : kind_(kind), random_(random), shape_(shape), lowest_(lowest_finite(dtype)) {}

  double value(const RowPlace& row, std::int64_t key) const {
    const std::uint64_t index = row.index + static_cast<std::uint64_t>(key);
    const double noise = random_.normal(index);
    switch (kind_) {
      case BiasKind::kMinusInfinity:
        return planted(row, index) ? -std::numeric_limits<double>::infinity() : noise;
      case BiasKind::kLowest:
        return planted(row, index) ? lowest_ : noise;
      case BiasKind::kHugeLogit:
        return key == random_.stream(2).below(row.index, shape_[3]) ? kHugeLogit : noise;
      case BiasKind::kVeryNegative:
        return kVeryNegativeMean + noise;
      case BiasKind::kGraded:
        return kGrade * static_cast<double>(key) / static_cast<double>(shape_[3]) + noise;
      case BiasKind::kNormal:
        break;
    }
    return noise;
  }

 private:
  bool planted(const RowPlace& row, std::uint64_t index) const {
    const bool dead_row = shape_[2] > 1 && row.query % kDeadPeriod == kDeadPhase;
    return dead_row || random_.stream(1).uniform(index) < kPlantedShare;
  }

  BiasKind kind_;
  Random random_;
  Shape shape_;
  double lowest_;
};

}  // namespace

std::optional<MaskKind> parse_mask_kind(std::string_view name) {
  const auto found = find_name(kMaskKindNames, name);
  return found ? std::optional(static_cast<MaskKind>(*found)) : std::nullopt;
}

std::optional<BiasKind> parse_bias_kind(std::string_view name) {
  const auto found = find_name(kBiasKindNames, name);
  return found ? std::optional(static_cast<BiasKind>(*found)) : std::nullopt;
}

void fill_normal(const Tensor& tensor, Random random, double mean, double stddev, unsigned jobs) {
  for_each_row(tensor, jobs, [&](const RowPlace& row, std::int64_t size) {
    for (std::int64_t d = 0; d < size; ++d) {
      const double value = mean + stddev * random.normal(row.index + static_cast<std::uint64_t>(d));
      store(tensor.data, tensor.dtype, row.offset + d * tensor.strides[3], value);
    }
  });
}

void fill_slopes(const Tensor& tensor) {
  for_each_row(tensor, 1, [&](const RowPlace& row, std::int64_t) {
    const double exponent = -8.0 * static_cast<double>(row.head + 1) / tensor.shape[1];
    store(tensor.data, tensor.dtype, row.offset,
          std::exp2(exponent) * (1.0 + 0.5 * static_cast<double>(row.batch)));
  });
}

void fill_mask(const Tensor& mask, MaskKind kind, double density, Random random, unsigned jobs) {
  const MaskRule rule(kind, density, random, distinct_shape(mask));
  for_each_row(mask, jobs, [&](const RowPlace& row, std::int64_t size) {
    auto* keep = static_cast<std::uint8_t*>(mask.data) + row.offset;
    for (std::int64_t key = 0; key < size; ++key) {
      keep[key * mask.strides[3]] = rule.keep(row, key) ? 1 : 0;
    }
  });
}

void fill_top_bias(const Tensor& mask, const Tensor& bias, double density, unsigned jobs) {
  for_each_row(mask, jobs, [&](const RowPlace& row, std::int64_t size) {
    const std::int64_t offset =
        row.batch * bias.strides[0] + row.head * bias.strides[1] + row.query * bias.strides[2];
    std::vector<std::pair<double, std::int64_t>> keys;  // {-bias, key}: the kept ones come first
    for (std::int64_t key = 0; key < size; ++key) {
      keys.emplace_back(-load(bias.data, bias.dtype, offset + key * bias.strides[3]), key);
    }
    const auto kept = static_cast<std::size_t>(std::llround(density * static_cast<double>(size)));
    std::ranges::nth_element(keys, keys.begin() + static_cast<std::ptrdiff_t>(kept));
    auto* keep = static_cast<std::uint8_t*>(mask.data) + row.offset;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      keep[keys[i].second * mask.strides[3]] = i < kept ? 1 : 0;
    }
  });
}

void store_dense(const Tensor& tensor, const std::vector<double>& values) {
  for_each_row(tensor, 1, [&](const RowPlace& row, std::int64_t size) {
    for (std::int64_t d = 0; d < size; ++d) {
      const double value = values[row.index + static_cast<std::size_t>(d)];
      store(tensor.data, tensor.dtype, row.offset + d * tensor.strides[3], value);
    }
  });
}

void fill_bias(const Tensor& bias, BiasKind kind, Random random, unsigned jobs) {
  const BiasRule rule(kind, random, distinct_shape(bias), bias.dtype);
  for_each_row(bias, jobs, [&](const RowPlace& row, std::int64_t size) {
    for (std::int64_t key = 0; key < size; ++key) {
      store(bias.data, bias.dtype, row.offset + key * bias.strides[3], rule.value(row, key));
    }
  });
}

}  // namespace attnjit::tensor
