#include "cli/work/spec_values.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "instance/blocks_spec.hpp"
#include "instance/sequences.hpp"

namespace attnjit::cli {
namespace {

// The share of tiles with a kept element, where each of `elements` is kept with a probability of
// `density`.
double kept_at_random(double density, double elements) {
  return 1 - std::pow(1 - density, elements);
}

double kept_by_mask(const instance::ProblemSpec& spec, int rows, int keys) {
  const double density = spec.mask_density;
  switch (spec.mask_kind) {
    case tensor::MaskKind::kAllTrue:
      return 1;
    case tensor::MaskKind::kBlocks:  // of squares, whose every third column is off
      return density * 2 / 3;
    case tensor::MaskKind::kBand:  // of the keys up to the diagonal
      return density * (2 - density);
    default: {
      const bool per_query = spec.mask[2] != '1';
      const double masks =
          per_query ? static_cast<double>(std::min<std::int64_t>(rows, spec.seqlen_q)) : 1;
      return kept_at_random(density, masks * keys);
    }
  }
}

}  // namespace

explain::Values values_of(const instance::ProblemSpec& spec) {
  explain::Values values;
  if (spec.packed) {
    instance::PackedBegins begins = instance::packed_begins(spec);
    values.cu_seqlens_q = std::move(begins.q);
    values.cu_seqlens_kv = std::move(begins.kv);
  }
  if (!spec.blocks.empty()) {
    // Kernels skip blocks inside a tile too.
    const instance::BlocksSpec blocks = instance::parse_blocks(spec.blocks);
    values.kept_tiles = [share = blocks.listed + blocks.full](int, int) { return share; };
  } else if (!spec.mask.empty()) {
    values.kept_tiles = [spec](int rows, int keys) { return kept_by_mask(spec, rows, keys); };
  }
  return values;
}

}  // namespace attnjit::cli
