#include <fmt/format.h>

#include <algorithm>

#include "codegen/kernel_configs.hpp"
#include "codegen/tunable_rules.hpp"
#include "codegen/tunables.hpp"

namespace attnjit::codegen {
namespace {

using problem::BackwardFamily;
using problem::Extent;

int widest_head_dim(const BackwardFamily& f) {
  return std::max(f.scores.head_dim, f.scores.head_dim_v);
}

// The Hopper kernel of dk and dv keeps dS times the slopes of a softcap in shared memory, and
// without dq it keeps no dS there: neither is a tile of dbias.
Rule why_no_dbias_tiles(const BackwardFamily& f) {
  if (f.scores.softcap) {
    return "wgmma does not support a dbias per query and key together with a softcap";
  }
  if (separates_dq(f)) {
    return "wgmma does not support a dbias per query and key with head_dim above 128";
  }
  return std::nullopt;
}

Rule why_invalid(const char* what, const BackwardTile& tile, const kernel::BackwardConfig& config,
                 int shared_bytes, const Arch& arch) {
  if (tile.path != Path::kMma) {
    return fmt::format("{}: path: there is no such kernel with wgmma; use mma", what);
  }
  const Rule rule = why_invalid(config, shared_bytes, arch);
  return rule ? Rule(fmt::format("{}: {}", what, *rule)) : std::nullopt;
}

// The rule for the tile of a kernel of a backward on path wgmma that has `config`.
template <class Config>
Rule why_wgmma_unfit(const char* what, const BackwardTile& tile, const Config& config,
                     const Arch& arch) {
  if (tile.block_kv != config.block_kv) {
    return fmt::format("{}: block_kv must be {} with path wgmma", what, config.block_kv);
  }
  if (tile.num_warps * 32 != config.num_threads() || tile.query_warps != 1 ||
      tile.min_blocks != 1) {
    return fmt::format("{}: num_warps must be {}, query_warps and min_blocks 1 with path wgmma",
                       what, config.num_threads() / 32);
  }
  if (tile.late || tile.fresh != kernel::Fresh::kNone) {
    return fmt::format("{}: late must be false and fresh none with path wgmma", what);
  }
  const Rule rule = why_invalid(config, config.shared_bytes(), arch);
  return rule ? Rule(fmt::format("{}: {}", what, *rule)) : std::nullopt;
}

// The rule for the kernel of dq, whichever its path.
Rule why_dq_unfit(const BackwardTunables& t, const BackwardFamily& f, const Arch& arch) {
  if (t.dq.path == Path::kMma) {
    const kernel::BackwardConfig config = dq_config(f, t);
    if (Rule rule = why_invalid("dq", t.dq, config, config.dq_shared_bytes(), arch)) return rule;
    if (config.key_warps() != 1) return "dq: query_warps must equal num_warps";
    return std::nullopt;
  }
  if (!arch.wgmma) return fmt::format("dq: path: wgmma does not exist on {}; use mma", arch.name);
  if (!f.scores.aligned) {
    return "dq: path: wgmma needs addresses and strides of all tensors to be multiples of 16 "
           "bytes; use mma";
  }
  const kernel::BackwardDqWgmmaConfig config = dq_wgmma_config(f, t);
  if (t.dq.block_q != config.block_q) {
    return fmt::format("dq: block_q must be {} with path wgmma", config.block_q);
  }
  return why_wgmma_unfit("dq", t.dq, config, arch);
}

Rule why_wgmma_unfit(const BackwardTunables& t, const BackwardFamily& f, const Arch& arch) {
  if (const Rule rule = why_no_wgmma(f, arch)) return fmt::format("dkv: path: {}; use mma", *rule);
  if (!separates_dq(f)) {
    if (t.dbias_method == DbiasMethod::kStore) {
      if (const Rule rule = why_no_stored_tiles(f)) {
        return fmt::format("dbias_method: {}; use parts", *rule);
      }
    }
    if (t.dq_method == DqMethod::kKernel) {
      return "dq_method must be add, store or plane where dkv has path wgmma";
    }
    if (t.dq_method == DqMethod::kStore) {
      if (const Rule rule = why_no_first_keys(f.scores)) {
        return fmt::format("dq_method: store {}; use add", *rule);
      }
      if (f.deterministic) return "dq_method: store is not deterministic; use add";
    }
    if (t.dq_method == DqMethod::kPlane) {
      if (f.scores.packed) return "dq_method: plane does not support cu_seqlens; use add";
      if (t.split) return "split must be false where dq_method is plane";
      if (stores_dbias(t.dbias_method)) {
        return "dq_method: plane does not support a dbias per query and key; use add";
      }
    }
    return why_wgmma_unfit("dkv", t.dkv, dkv_wgmma_config(f, t), arch);
  }
  if (t.dq_method != DqMethod::kKernel) {
    return "dq_method must be kernel where dkv has path wgmma and block_kv 64";
  }
  const kernel::BackwardWideConfig config = dkv_wide_config(f, t);
  if (t.dkv.block_q != config.block_q) {
    return fmt::format("dkv: block_q must be {} with path wgmma and block_kv 64", config.block_q);
  }
  return why_wgmma_unfit("dkv", t.dkv, config, arch);
}

Rule why_dbias_unfit(const BackwardTunables& t, const BackwardFamily& f) {
  const DbiasMethod natural = default_dbias_method(f), method = t.dbias_method;
  const bool reduces = natural == DbiasMethod::kAdd || natural == DbiasMethod::kKernel;
  const bool asked_to = method == DbiasMethod::kAdd || method == DbiasMethod::kKernel ||
                        method == DbiasMethod::kParts;
  const bool keeps_all = natural == DbiasMethod::kStore && method == DbiasMethod::kParts;
  if (method != natural && !(reduces && asked_to) && !keeps_all) {
    return "dbias_method: it does not support the axes that dbias keeps";
  }
  if (f.deterministic && method == DbiasMethod::kAdd) {
    return "dbias_method: add is not deterministic; use kernel";
  }
  if (method == DbiasMethod::kParts) {
    if (const Rule rule = why_no_parts(f)) {
      return fmt::format("dbias_method: {}; use {}", *rule, reduces ? "add or kernel" : "store");
    }
    if (t.dkv.path != Path::kWgmma) {
      return fmt::format("dbias_method: parts needs path wgmma; use {}",
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

Rule why_no_parts(const BackwardFamily& f) {
  if (!f.dbias_reduces_few && default_dbias_method(f) != DbiasMethod::kStore) {
    return "parts does not support a dbias that sums more than four planes";
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
  if (dbias == DbiasMethod::kColumns && f.scores.softcap && separates_dq(f)) {
    return "wgmma does not support a dbias per key together with a softcap and head_dim above 128, "
           "or in a deterministic backward with cu_seqlens";
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

Rule why_unfit(const BackwardTunables& tunables, const BackwardFamily& f, const Arch& arch) {
  if (auto rule = why_out_of_range(tunables)) return rule;
  if (auto rule = why_dbias_unfit(tunables, f)) return rule;
  if (f.deterministic && tunables.dq_method == DqMethod::kAdd &&
      tunables.dkv.path != Path::kWgmma) {
    return "dq_method: add is not deterministic with path mma; use kernel";
  }
  if (f.deterministic && tunables.split) return "split: it is not deterministic; set it to false";
  if (tunables.dkv.path == Path::kWgmma) {
    if (auto rule = why_wgmma_unfit(tunables, f, arch)) return rule;
  } else {
    if (tunables.dq_method == DqMethod::kPlane || tunables.dq_method == DqMethod::kStore) {
      return fmt::format("dq_method: {} needs path wgmma; use add or kernel",
                         base::word(tunables.dq_method));
    }
    const auto dkv = dkv_config(f, tunables);
    if (auto rule = why_invalid("dkv", tunables.dkv, dkv, dkv.shared_bytes(), arch)) return rule;
  }
  if (tunables.dq_method == DqMethod::kKernel) {
    if (auto rule = why_dq_unfit(tunables, f, arch)) return rule;
  }
  if (tunables.dbias_method == DbiasMethod::kKernel) {
    const auto dbias = dbias_config(f, tunables);
    if (auto rule = why_invalid("dbias", tunables.dbias, dbias, dbias.dbias_shared_bytes(), arch)) {
      return rule;
    }
  }
  return std::nullopt;
}

}  // namespace attnjit::codegen
