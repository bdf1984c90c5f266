#include <fmt/format.h>

#include <algorithm>

#include "codegen/features.hpp"
#include "codegen/kernels/rows.hpp"

namespace attnjit::codegen {
namespace {

using problem::BackwardFamily;
using problem::Extent;

int widest_head_dim(const BackwardFamily& f) {
  return std::max(f.scores.head_dim, f.scores.head_dim_v);
}

// The feature that gives gradients slopes, where transforms_scores().
const char* transformation(const BackwardFamily& f) {
  return f.scores.softcap || expressed_cap(f.scores) ? "a softcap"
                                                     : "a score that is more than s and an addend";
}

// The Hopper kernel of dk and dv keeps dS times the slopes of scores in shared memory, and without
// dq it keeps no dS there: neither is a tile of dbias.
Rule why_no_dbias_tiles(const BackwardFamily& f) {
  if (transforms_scores(f.scores)) {
    return fmt::format("wgmma does not support a dbias per query and key together with {}",
                       transformation(f));
  }
  if (separates_dq(f)) {
    return "wgmma does not support a dbias per query and key with head_dim above 128";
  }
  return std::nullopt;
}

Rule why_dbias_method_unfit(const BackwardTunables& t, const BackwardFamily& f) {
  const DbiasMethod natural = default_dbias_method(f), method = t.dbias_method;
  const bool reduces = natural == DbiasMethod::kAdd || natural == DbiasMethod::kKernel;
  const bool asked_to = method == DbiasMethod::kAdd || method == DbiasMethod::kKernel ||
                        method == DbiasMethod::kPerPlane || method == DbiasMethod::kPerBlock;
  const bool keeps_all = natural == DbiasMethod::kStore && method == DbiasMethod::kPerPlane;
  if (method != natural && !(reduces && asked_to) && !keeps_all) {
    return "dbias_method: it does not support the axes that dbias keeps";
  }
  if (f.deterministic && method == DbiasMethod::kAdd) {
    return "dbias_method: add is not deterministic; use kernel";
  }
  if (method == DbiasMethod::kPerBlock && t.dkv.path != Path::kSingleTile &&
      t.dkv.path != Path::kSharedBias) {
    return "dbias_method: per_block needs path single_tile or shared_bias; use add or kernel";
  }
  if (method == DbiasMethod::kPerPlane) {
    if (const Rule rule = why_no_per_plane(f)) {
      return fmt::format("dbias_method: {}; use {}", *rule, reduces ? "add or kernel" : "store");
    }
    if (t.dkv.path != Path::kWgmma) {
      return fmt::format("dbias_method: per_plane needs path wgmma; use {}",
                         reduces ? "add or kernel" : "store");
    }
  }
  return std::nullopt;
}

}  // namespace

Rule why_no_first_keys(const problem::Family& f) {
  if (f.packed) return "does not support cu_seqlens";
  if (f.mask != Extent::kAbsent && f.mask != Extent::kPerQuery)
    return "does not support a mask over keys";
  return std::nullopt;
}

Rule why_no_stored_tiles(const BackwardFamily& f) {
  if (f.dbias_dtype != f.scores.dtype)
    return "store does not support a dbias of another dtype than q with path wgmma";
  if (!f.dbias_vectorized) {
    return "store needs rows of dbias to be multiples of 16 bytes with path wgmma";
  }
  return std::nullopt;
}

Rule why_no_per_plane(const BackwardFamily& f) {
  if (!f.dbias_reduces_few && default_dbias_method(f) != DbiasMethod::kStore) {
    return "per_plane does not support a dbias that sums more than four planes";
  }
  return why_no_dbias_tiles(f);
}

bool separates_dq(const BackwardFamily& f) {
  return widest_head_dim(f) > 128 || (f.scores.packed && f.deterministic);
}

Rule why_no_wgmma(const BackwardFamily& f, const Arch& arch) {
  if (!arch.wgmma) return fmt::format("wgmma does not exist on {}", arch.name);
  if (!f.scores.aligned) {
    return "wgmma needs addresses and strides of all tensors to be multiples of 16 bytes";
  }
  const DbiasMethod dbias = default_dbias_method(f);
  // A separate kernel of dbias costs what wgmma gains: 1.86 ms instead of 1.83 with a softcap and
  // head_dim 128, 3.25 instead of 2.24 with 192 (H100, 2026-11-27).
  if (dbias == DbiasMethod::kStore || dbias == DbiasMethod::kAdd) {
    if (const Rule rule = why_no_dbias_tiles(f)) return rule;
  }
  if (dbias == DbiasMethod::kColumns && transforms_scores(f.scores) && separates_dq(f)) {
    return fmt::format(
        "wgmma does not support a dbias per key together with {} and head_dim above 128, or in a "
        "deterministic backward with cu_seqlens",
        transformation(f));
  }
  // Elements that are loaded one by one cost registers. Up to 96 columns it takes 0.56 to 0.71 of
  // the time of path mma, with 160 columns 0.47; with 128 columns it spills 180 to 292 bytes and
  // takes 1.2 to 1.5 times as long, and is not faster with 256 (H100, 2026-11-27).
  const int columns = widest_head_dim(f);
  const bool has_registers = columns <= 96 || (columns > 128 && columns <= 192);
  if (f.scores.bias == Extent::kPerPair && !has_bias_tiles(f.scores) && !has_registers) {
    return fmt::format(
        "wgmma is not faster than mma with head_dim {} and a bias that has dtype fp32 or rows that "
        "are not multiples of 16 bytes",
        columns);
  }
  return std::nullopt;
}

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
  // Tiles that no sequence reaches are to be 0, and no walk comes by.
  if (!f.dbias_reduces_planes && !f.scores.packed) return DbiasMethod::kStore;
  return f.deterministic ? DbiasMethod::kKernel : DbiasMethod::kAdd;
}

Rule why_unfit(const BackwardTunables& tunables, const problem::BackwardPlanKey& key,
               const Arch& arch) {
  if (auto rule = why_unfit(tunables, key.family, arch)) return rule;
  switch (tunables.dkv.path) {
    case Path::kSingleTile:
      return why_longer_than(tunables.dkv.block_q, tunables.dkv.block_kv, key, Path::kSingleTile);
    case Path::kSharedBias:
      return why_longer_than(tunables.dkv.block_q, tunables.dq.block_kv, key, Path::kSharedBias);
    default:
      return std::nullopt;
  }
}

Rule why_unfit(const BackwardTunables& tunables, const BackwardFamily& f, const Arch& arch) {
  if (auto rule = why_out_of_range(tunables)) return rule;
  if (auto rule = why_dbias_method_unfit(tunables, f)) return rule;
  const Rule dkv =
      std::visit([&](const auto& config) { return why_dkv_unfit(config, tunables, f, arch); },
                 dkv_kernel(f, tunables));
  if (dkv) return dkv;
  if (f.deterministic && tunables.split) return "split: it is not deterministic; set it to false";
  if (tunables.dq_method == DqMethod::kKernel) {
    const Rule dq =
        std::visit([&](const auto& config) { return why_dq_unfit(config, tunables, f, arch); },
                   dq_kernel(f, tunables));
    if (dq) return dq;
  }
  if (tunables.dbias_method != DbiasMethod::kKernel) return std::nullopt;
  return why_dbias_unfit(dbias_kernel(f, tunables), tunables, arch);
}

}  // namespace attnjit::codegen
