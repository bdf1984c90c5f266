#include "explain/counts.hpp"

#include <algorithm>
#include <cmath>

#include "attnjit/tensor.hpp"

namespace attnjit::explain {
namespace {

using problem::Extent;
using problem::Problem;

double bytes_of(DType dtype) { return static_cast<double>(element_size(dtype)); }

// Columns as matrix instructions take them: whole groups of 16.
double columns(std::int32_t head_dim) { return std::ceil(head_dim / 16.0) * 16; }

double query_rows(const Problem& p) {
  return static_cast<double>(p.tensor_batch()) * p.num_heads_q * p.seqlen_q;
}
double key_rows(const Problem& p) {
  const double planes = p.paged() ? p.batch : p.tensor_batch();
  return planes * p.num_heads_kv * p.seqlen_kv;
}

// Rows of dk and dv, which are those of all keys where some are selected.
double gradient_rows(const Problem& p) {
  return static_cast<double>(p.tensor_batch()) * p.num_heads_kv * p.num_keys();
}

// Elements that a mask or bias has, its broadcast axes counted once.
double elements(const problem::Operand& operand) {
  return static_cast<double>(operand.num_batches) * operand.num_heads * operand.queries *
         operand.keys;
}

// Adds what both passes read: q, k, v, mask and bias; of k and v the share `read`.
void add_inputs(Counts& counts, const Problem& p, double read) {
  const double size = bytes_of(p.dtype);
  counts.traffic.push_back({"q", query_rows(p) * p.head_dim * size});
  counts.traffic.push_back({"k", read * key_rows(p) * p.head_dim * size});
  counts.traffic.push_back({"v", read * key_rows(p) * p.head_dim_v * size});
  if (p.mask.extent != Extent::kAbsent) {
    const double bytes = elements(p.mask) * (p.mask_prepared ? 1.0 / 8 : 1);
    counts.traffic.push_back({"mask", bytes});
  }
  if (p.bias.extent != Extent::kAbsent) {
    counts.traffic.push_back({"bias", elements(p.bias) * bytes_of(p.bias.dtype)});
  }
}

// The share of the device without work while `items`, of `tiles` in all, run on `slots`. Equal ones
// go in whole rounds; of others the device takes the long ones first, so that the longest alone can
// keep it waiting.
struct Items {
  double count = 0, tiles = 0, longest = 0;
  bool equal = true;
};
double idle_share(const Items& items, double slots) {
  if (items.count == 0 || items.tiles == 0 || slots == 0) return 0;
  if (items.equal) return 1 - items.count / (std::ceil(items.count / slots) * slots);
  const double least = items.tiles / slots;
  return 1 - least / std::max(least, items.longest);
}

bool has_equal_rows(const Problem& p) {
  return !p.packed && !p.bounded_left && !p.bounded_right && !p.keep;
}

bool sums_splits(launch::ForwardStep step) { return step == launch::ForwardStep::kCombine; }
bool sums_splits(launch::BackwardStep step) {
  return step == launch::BackwardStep::kDkSum || step == launch::BackwardStep::kDvSum;
}

// The kernels that run, with those that put splits together again where there are `splits`.
template <class Spec>
std::vector<std::string> launched(const Spec& spec, int splits) {
  std::vector<std::string> kernels;
  for (const auto& step : spec.steps) {
    if (splits > 1 || !sums_splits(step.kind)) kernels.push_back(step.source.entry);
  }
  return kernels;
}

}  // namespace

double Counts::memory_bytes() const {
  double sum = 0;
  for (const Traffic& each : traffic) sum += each.bytes;
  return sum;
}

Counts count(const launch::ForwardPlanSpec& spec, const Problem& p, const Values& values) {
  Counts counts;
  const codegen::ForwardFacts& facts = spec.facts;
  const TileSize tile{facts.block_q, facts.block_kv, facts.pack_gqa_heads};
  counts.pairs = count_pairs(p, tile, values);
  const double width = columns(p.head_dim) + columns(p.head_dim_v);
  counts.tensor_flop = 2 * counts.pairs.walked * width;
  counts.exponentials = counts.pairs.walked;

  const launch::WorkspaceLayout layout = launch::workspace_layout(spec, p);
  // Keys that one tile of rows drops may be read by another.
  add_inputs(counts, p, layout.grid.q_tiles == 1 ? kept_share(p, tile, values) : 1);
  counts.traffic.push_back({"out", query_rows(p) * p.head_dim_v * bytes_of(p.dtype)});
  if (p.has_lse) counts.traffic.push_back({"lse", query_rows(p) * sizeof(float)});
  if (layout.bytes > 0)
    counts.traffic.push_back({"workspace", 2.0 * static_cast<double>(layout.bytes)});

  const launch::ForwardGrid& grid = layout.grid;
  const Items items{static_cast<double>(grid.blocks()), counts.pairs.tiles,
                    counts.pairs.longest / grid.splits, has_equal_rows(p)};
  counts.idle = idle_share(items, spec.block_slots);
  counts.kernels = launched(spec, grid.splits);
  return counts;
}

Counts count(const launch::BackwardPlanSpec& spec, const problem::BackwardProblem& problem,
             const Values& values) {
  Counts counts;
  const Problem& p = problem.forward;
  counts.pairs = count_pairs(p, {spec.dkv.block_q, spec.dkv.block_kv, 1}, values);
  const double walked = counts.pairs.walked;
  const double d = columns(p.head_dim), dv = columns(p.head_dim_v);
  // S, dP, dV, dK and dQ; a kernel of its own computes S and dP again.
  int recomputed = 0;
  if (spec.has_dq_kernel()) ++recomputed;
  if (spec.dbias_kernel) ++recomputed;
  counts.tensor_flop = 2 * walked * (3 * d + 2 * dv + recomputed * (d + dv));
  counts.exponentials = walked * (1 + recomputed);
  if (spec.adds_dq())
    counts.reduced_bytes += counts.pairs.tiles * spec.dkv.block_q * d * sizeof(float);
  if (spec.tunables.dbias_method == codegen::DbiasMethod::kAdd) {
    counts.reduced_bytes += walked * sizeof(float);
  }

  const launch::BackwardLayout layout = launch::workspace_layout(spec, problem);
  add_inputs(counts, p, 1);
  const double size = bytes_of(p.dtype);
  const double out_bytes = query_rows(p) * p.head_dim_v * size;
  counts.traffic.push_back({"out", out_bytes});
  counts.traffic.push_back({"dout", 2 * out_bytes});  // again by the kernel of dk and dv
  counts.traffic.push_back({"dq", query_rows(p) * p.head_dim * size});
  counts.traffic.push_back({"dk", gradient_rows(p) * p.head_dim * size});
  counts.traffic.push_back({"dv", gradient_rows(p) * p.head_dim_v * size});
  if (problem.dbias.extent != Extent::kAbsent) {
    const problem::BiasGradient& dbias = problem.dbias;
    counts.traffic.push_back({"dbias", static_cast<double>(dbias.batches) * dbias.heads *
                                           dbias.queries * dbias.keys * bytes_of(dbias.dtype)});
  }
  counts.traffic.push_back({"workspace", 2.0 * static_cast<double>(layout.bytes)});
  const launch::BackwardGrid& grid = layout.grid;
  // A tile of keys has about as many rows as a tile of rows has keys.
  const double longest = counts.pairs.longest * spec.dkv.block_kv / spec.dkv.block_q;
  const Items items{static_cast<double>(grid.dkv_blocks), counts.pairs.tiles, longest / grid.splits,
                    has_equal_rows(p)};
  counts.idle = idle_share(items, spec.block_slots);
  counts.kernels = launched(spec, grid.splits);
  return counts;
}

}  // namespace attnjit::explain
