#include "codegen/backward_tunables.hpp"

#include <fmt/format.h>

#include "codegen/kernel_dtype.hpp"

namespace attnjit::codegen {
namespace {

using problem::BackwardFamily;
using problem::Extent;

kernel::BackwardConfig config(const BackwardFamily& f, const BackwardTile& tile, bool adds_dq) {
  const bool adds = f.scores.bias != Extent::kAbsent;
  return {.dtype = kernel_dtype(f.scores.dtype),
          .head_dim = f.scores.head_dim,
          .head_dim_v = f.scores.head_dim_v,
          .gqa_ratio = f.scores.gqa_ratio,
          .aligned = f.scores.aligned,
          .scale_first = adds || !f.scores.positive_scale,
          .adds_dq = adds_dq,
          .block_q = tile.block_q,
          .block_kv = tile.block_kv,
          .num_stages = tile.num_stages,
          .num_warps = tile.num_warps,
          .query_warps = tile.query_warps,
          .min_blocks = tile.min_blocks,
          .late = tile.late,
          .fresh = tile.fresh};
}

std::optional<std::string> why_invalid(const char* what, const kernel::BackwardConfig& config,
                                       int shared_bytes, const Arch& arch) {
  if (const char* rule = kernel::why_invalid(config)) return fmt::format("{}: {}", what, rule);
  if (shared_bytes > arch.shared_bytes_per_block) {
    return fmt::format("{}: needs {} bytes of shared memory; {} has {} per thread block", what,
                       shared_bytes, arch.name, arch.shared_bytes_per_block);
  }
  return std::nullopt;
}

std::optional<std::string> why_unfit(DbiasMethod method, const BackwardFamily& f) {
  const DbiasMethod natural = default_dbias_method(f);
  const bool reduces = natural == DbiasMethod::kAdd || natural == DbiasMethod::kKernel;
  const bool asked_to = method == DbiasMethod::kAdd || method == DbiasMethod::kKernel;
  if (method != natural && !(reduces && asked_to)) {
    return "dbias: this method does not serve the axes that dbias keeps";
  }
  if (f.deterministic && method == DbiasMethod::kAdd) {
    return "dbias: add is not deterministic; use kernel";
  }
  return std::nullopt;
}

}  // namespace

DbiasMethod default_dbias_method(const BackwardFamily& f) {
  switch (f.dbias) {
    case Extent::kAbsent:
      return DbiasMethod::kNone;
    case Extent::kPerQuery:
      return DbiasMethod::kRows;
    case Extent::kPerKey:
      return DbiasMethod::kColumns;
    case Extent::kPerPair:
      break;
  }
  if (!f.dbias_reduces_planes) return DbiasMethod::kStore;
  return f.deterministic ? DbiasMethod::kKernel : DbiasMethod::kAdd;
}

std::optional<std::string> why_unfit(const BackwardTunables& tunables, const BackwardFamily& f,
                                     const Arch& arch) {
  if (auto rule = why_unfit(tunables.dbias, f)) return rule;
  if (f.deterministic && tunables.dq == DqMethod::kAdd) {
    return "dq: add is not deterministic; use kernel";
  }
  if (f.deterministic && tunables.split) return "split: it is not deterministic; set it to false";
  const auto keys = keys_config(f, tunables);
  if (auto rule = why_invalid("keys", keys, keys.shared_bytes(), arch)) return rule;
  if (tunables.dq == DqMethod::kKernel) {
    const auto queries = queries_config(f, tunables);
    if (auto rule = why_invalid("queries", queries, queries.dq_shared_bytes(), arch)) return rule;
    if (queries.key_warps() != 1) return "queries: query_warps must equal num_warps";
  }
  if (tunables.dbias == DbiasMethod::kKernel) {
    const auto bias = dbias_config(f, tunables);
    if (auto rule = why_invalid("bias_tile", bias, bias.dbias_shared_bytes(), arch)) return rule;
  }
  return std::nullopt;
}

kernel::BackwardConfig keys_config(const BackwardFamily& f, const BackwardTunables& tunables) {
  return config(f, tunables.keys, tunables.dq == DqMethod::kAdd);
}
kernel::BackwardConfig queries_config(const BackwardFamily& f, const BackwardTunables& tunables) {
  return config(f, tunables.queries, false);
}
kernel::BackwardConfig dbias_config(const BackwardFamily& f, const BackwardTunables& tunables) {
  return config(f, tunables.bias_tile, false);
}

std::optional<kernel::MaskClassesConfig> mask_classes_config(const BackwardFamily& f) {
  if (!problem::varies_over_keys(f.scores.mask)) return std::nullopt;
  return kernel::MaskClassesConfig{.per_pair = f.scores.mask == Extent::kPerPair,
                                   .vectorized = f.scores.mask_vectorized};
}

kernel::BackwardPreprocessConfig preprocess_config(const BackwardFamily& f) {
  return {.dtype = kernel_dtype(f.scores.dtype),
          .head_dim_v = f.scores.head_dim_v,
          .aligned = f.scores.aligned};
}

kernel::FragmentSumConfig fragment_sum_config(const BackwardFamily& f, int columns) {
  return {.dtype = kernel_dtype(f.scores.dtype), .head_dim = columns, .aligned = f.scores.aligned};
}

std::optional<kernel::BiasSumConfig> bias_sum_config(const BackwardFamily& f, DbiasMethod method) {
  switch (method) {
    case DbiasMethod::kNone:
    case DbiasMethod::kStore:
    case DbiasMethod::kKernel:
      return std::nullopt;
    case DbiasMethod::kRows:
    case DbiasMethod::kColumns:
    case DbiasMethod::kAdd:
      break;
  }
  return kernel::BiasSumConfig{.dtype = kernel_dtype(f.dbias_dtype),
                               .vectorized = f.dbias_vectorized,
                               .over_queries = f.dbias_scalar};
}

std::string describe_tile(const BackwardTile& t) {
  return fmt::format("q{} kv{} s{} w{} qw{} b{}{}{}", t.block_q, t.block_kv, t.num_stages,
                     t.num_warps, t.query_warps, t.min_blocks, t.late != 0 ? " late" : "",
                     t.fresh != 0 ? fmt::format(" fresh{}", t.fresh) : "");
}

std::string describe_tile(const BackwardTunables& t) {
  std::string text = describe_tile(t.keys);
  if (t.dq == DqMethod::kKernel) text += ", dq " + describe_tile(t.queries);
  if (t.dbias == DbiasMethod::kKernel) text += ", dbias " + describe_tile(t.bias_tile);
  return text;
}

}  // namespace attnjit::codegen
