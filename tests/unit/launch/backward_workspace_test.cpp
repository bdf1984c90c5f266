// The workspace of a backward over random problems: how large it may be, and that no two parts of
// it share memory.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "instance/call_args.hpp"
#include "launch/backward_arguments.hpp"
#include "launch/key_selection.hpp"
#include "launch/operand_ranges.hpp"
#include "random_problem.hpp"
#include "tuner/config_zero.hpp"

using namespace attnjit;
using codegen::DbiasMethod;
using codegen::DqMethod;

namespace {

/// Bytes of the workspace that one part takes, from `first` on.
struct Part {
  std::int64_t first, bytes;
};

std::int64_t ceil64(std::int64_t rows) { return (rows + 63) / 64 * 64; }
std::int64_t groups(std::int64_t columns) { return (columns + 7) / 8 * 8; }

struct Workspace {
  const launch::BackwardPlanSpec& spec;
  const launch::BackwardLayout& layout;
  const problem::BackwardProblem& problem;
  const problem::Problem& p = problem.forward;
  const kernel::DkvWgmmaConfig* wgmma = std::get_if<kernel::DkvWgmmaConfig>(&spec.dkv_kernel);
  const std::int64_t rows = std::int64_t{p.tensor_batch()} * p.num_heads_q * padded_rows();
  const std::int64_t kv_rows = std::int64_t{p.batch} * p.num_heads_kv * ceil64(p.seqlen_kv);
  const std::int64_t head_dim = groups(p.head_dim), head_dim_v = groups(p.head_dim_v);

  // Whole tiles of the Hopper kernel, into which the copy engine brings numbers of rows. Packed
  // sequences have 64 rows each beside their own, and as many that are nobody's.
  std::int64_t padded_rows() const {
    const std::int64_t tile = wgmma ? std::max(wgmma->block_q, 64) : 64;
    if (p.packed) return (p.seqlen_q / 64 + p.batch + 1) * 64 + tile - 64;
    return (p.seqlen_q + tile - 1) / tile * tile;
  }
  // A mask over keys that is not prepared, unless these are packed: a bit per element in each order
  // that kernels read, of keys up to a multiple of 128, and a byte for each 64 x 64 elements.
  std::int64_t mask_bytes() const {
    if (p.mask.packs_keys || p.mask_prepared) return 0;
    if (p.mask.extent != problem::Extent::kPerKey && p.mask.extent != problem::Extent::kPerPair) {
      return 0;
    }
    const std::int64_t planes = std::int64_t{p.mask.num_batches} * p.mask.num_heads;
    const std::int64_t keys = kernel::round_up(p.mask.keys, 128);
    const bool per_pair = p.mask.extent == problem::Extent::kPerPair;
    const bool by_keys =
        per_pair && (wgmma || std::holds_alternative<kernel::DkvWgmmaD256Config>(spec.dkv_kernel));
    const bool by_rows = !by_keys || spec.has_dq_kernel() || spec.dbias_kernel;
    const std::int64_t q_tiles = per_pair ? ceil64(p.mask.queries) / 64 : 1;
    return planes * keys *
               ((by_rows ? p.mask.queries : 0) + (by_keys ? ceil64(p.mask.queries) : 0)) / 8 +
           planes * q_tiles * keys / 64;
  }
  // Planes of dS in 16 bits.
  std::int64_t dbias_partial_bytes() const {
    const problem::BiasGradient& g = problem.dbias;
    const std::int64_t planes = std::int64_t{p.batch} * p.num_heads_q;
    return planes * g.queries * kernel::round_up(g.keys, 8) * 2;
  }
  // A byte for each tile of them.
  std::int64_t dbias_stored_bytes() const {
    return std::int64_t{p.batch} * p.num_heads_q * layout.grid.q_tiles * layout.grid.kv_tiles;
  }
  std::int64_t dbias_elements() const {
    const auto& g = problem.dbias;
    if (g.extent == problem::Extent::kAbsent) return 0;
    const std::int64_t planes = std::int64_t{g.batches} * g.heads;
    if (g.extent == problem::Extent::kPerQuery) return planes * (g.scalar ? 1 : g.queries);
    if (g.extent == problem::Extent::kPerKey) return planes * g.keys;
    const int queries = wgmma ? std::max(64, wgmma->block_q) : 16;
    const int keys = wgmma ? 128 : 32;
    return planes * kernel::round_up(g.queries, queries) * kernel::round_up(g.keys, keys);
  }
  // Sums of the shares of the kernel of dbias, each of which has a thread block for each tile.
  std::int64_t share_elements() const {
    const problem::BiasGradient& g = problem.dbias;
    if (layout.grid.dbias_shares == 1) return 0;
    return std::int64_t{layout.grid.dbias_shares} * g.batches * g.heads * g.queries *
           kernel::round_up(g.keys, 8);
  }
  // Sums of dS over queries.
  std::int64_t columns() const {
    const std::int64_t batch = p.bias.packs_keys ? 1 : p.batch;
    return batch * p.num_heads_q * problem.dbias.keys;
  }
  // Copies of selected keys and values, their gradients and their numbers.
  std::int64_t selected_rows() const {
    return spec.gather_keys ? std::int64_t{p.batch} * p.num_heads_kv * p.seqlen_kv : 0;
  }
  std::int64_t selection_bytes() const {
    return spec.gather_keys ? selected_rows() * (4 * (head_dim + head_dim_v) + 4) + 4 * p.batch : 0;
  }
  std::int64_t range_bytes() const {
    return spec.operand_ranges ? launch::operand_ranges_layout(spec.ranged_axes, p).bytes : 0;
  }
  // The limit that launch/backward_plan_spec.hpp promises, padding apart.
  std::int64_t bound() const {
    const bool per_plane = spec.tunables.dbias_method == DbiasMethod::kPerPlane;
    std::int64_t floats = rows * (head_dim + 4) + dbias_elements() * (per_plane ? 2 : 1);
    if (wgmma) floats += rows * 4 + rows / 16;  // bf16x3 of lse and delta, semaphores
    if (spec.tunables.dbias_method == DbiasMethod::kPerBlock) {
      floats += 4 * spec.block_slots * spec.dkv.block_q * spec.dkv.block_kv;
    }
    if (const auto& dbias = spec.dbias_kernel) {
      floats += 4 * spec.dbias_slots * dbias->block_q * dbias->block_kv;
    }
    if (spec.tunables.split) floats += kv_rows * (head_dim + head_dim_v);
    if (problem.dbias.extent == problem::Extent::kPerKey) {
      floats += columns();
    }
    return 4 * floats + mask_bytes() + (per_plane ? dbias_stored_bytes() : 0) + selection_bytes() +
           range_bytes();
  }
  std::vector<Part> parts() const {
    const auto part = [](std::size_t first, std::int64_t bytes) {
      return Part{static_cast<std::int64_t>(first), bytes};
    };
    std::vector<Part> list;
    if (!spec.dkv.reads_out) {
      list = {part(layout.lse, rows * 4), part(layout.delta, rows * 4),
              part(layout.live, rows / 8)};
    }
    if (wgmma) list.push_back(part(layout.row_bf16x3, rows * 16));
    const DbiasMethod method = spec.tunables.dbias_method;
    if (method == DbiasMethod::kRows) list.push_back(part(layout.ds_rows, rows * 4));
    if (spec.sink_sum) list.push_back(part(layout.dsink_rows, rows * 4));
    if (mask_bytes() > 0) list.push_back(part(layout.mask, mask_bytes()));
    if (spec.gather_keys) {
      const auto selection = launch::key_selection_layout(p, codegen::Pass::kBackward);
      const auto add = [&](std::int64_t offset, std::int64_t bytes) {
        list.push_back(part(layout.selection + static_cast<std::size_t>(offset), bytes));
      };
      for (const std::int64_t k : {selection.k, selection.dk})
        add(k, selected_rows() * head_dim * 2);
      for (const std::int64_t v : {selection.v, selection.dv}) {
        add(v, selected_rows() * head_dim_v * 2);
      }
      add(selection.selected, selected_rows() * 4);
      add(selection.key_numbers, p.batch * 4);
    }
    if (spec.operand_ranges) list.push_back(part(layout.operand_ranges, range_bytes()));
    if (spec.adds_dq()) {
      list.push_back(part(layout.dq_sum, rows * head_dim * 4));
    } else if (spec.owns_kv_head()) {
      const std::int64_t heads = layout.grid.dkv_blocks * p.gqa_ratio();
      list.push_back(part(layout.dq_sum, heads * layout.grid.padded_rows() * head_dim * 4));
    }
    if (layout.grid.splits > 1) {
      list.push_back(part(layout.dk_sum, kv_rows * head_dim * 4));
      list.push_back(part(layout.dv_sum, kv_rows * head_dim_v * 4));
    }
    if (spec.dkv.orders_dq()) list.push_back(part(layout.dq_semaphores, rows / 4));
    const bool shares = spec.dbias_kernel || method == DbiasMethod::kPerBlock;
    if (shares && layout.grid.dbias_shares > 1)
      list.push_back(part(layout.dbias_partials, share_elements() * 4));
    if (method == DbiasMethod::kColumns) {
      list.push_back(part(layout.dbias_partials, columns() * 4));
    } else if (method == DbiasMethod::kAdd) {
      list.push_back(part(layout.dbias_partials, dbias_elements() * 4));
    } else if (method == DbiasMethod::kPerPlane) {
      list.push_back(part(layout.dbias_partials, dbias_partial_bytes()));
      list.push_back(part(layout.dbias_stored, dbias_stored_bytes()));
    }
    return list;
  }
};

void check(const Workspace& workspace) {
  const launch::BackwardLayout& layout = workspace.layout;
  std::vector<Part> parts = workspace.parts();
  const auto padding = static_cast<std::int64_t>(launch::kWorkspaceAlignment * parts.size());
  const auto bytes = static_cast<std::int64_t>(layout.bytes);
  CHECK(bytes <= workspace.bound() + padding);
  std::ranges::sort(parts, {}, &Part::first);
  std::int64_t end = 0;
  for (const Part& part : parts) {
    CHECK(part.first >= end);
    CHECK(part.first % static_cast<std::int64_t>(launch::kWorkspaceAlignment) == 0);
    end = part.first + part.bytes;
  }
  CHECK(end <= bytes);
  // The sums, which are set to zero, are whole vectors of 16 bytes and end with the workspace, but
  // for those of dq that become zeros later.
  const launch::BackwardGrid& grid = layout.grid;
  const std::int64_t planes = std::int64_t{grid.zeros_ahead} * grid.section_planes;
  std::int64_t later = 0;
  if (grid.zeros_ahead > 0) {
    CHECK(planes < grid.kv_planes);
    later = (grid.kv_planes - planes) * workspace.p.gqa_ratio() * grid.padded_rows() *
            workspace.head_dim * 4;
  }
  CHECK(static_cast<std::int64_t>(layout.sums + layout.sum_bytes) + later == bytes);
  CHECK(layout.sum_bytes % 16 == 0);
}

// Each way to compute the gradients of `family` on `arch`.
std::vector<codegen::BackwardTunables> ways(const problem::BackwardPlanKey& key,
                                            const codegen::Arch& arch) {
  std::vector<codegen::BackwardTunables> list;
  const codegen::BackwardTunables tunables = tuner::config_zero(key, arch);
  for (const DqMethod dq :
       {DqMethod::kAdd, DqMethod::kFirstStores, DqMethod::kKernel, DqMethod::kOwnKvHead}) {
    for (const bool split : {false, true}) {
      for (const DbiasMethod dbias : {codegen::default_dbias_method(key.family), DbiasMethod::kAdd,
                                      DbiasMethod::kKernel, DbiasMethod::kPerPlane}) {
        codegen::BackwardTunables way = tunables;
        way.dq_method = dq;
        way.split = split;
        way.dbias_method = dbias;
        if (codegen::why_unfit(way, key.family, arch)) continue;
        if (std::ranges::find(list, way) == list.end()) list.push_back(way);
      }
    }
  }
  return list;
}

// Random problems, and some more whose dbias sums few planes or none, which are seldom among these.
instance::ProblemSpec problem_number(std::uint64_t i) {
  constexpr std::uint64_t kRandom = 300;
  if (i < kRandom) return test::random_backward_problem(i);
  const int step = static_cast<int>(i - kRandom);
  instance::ProblemSpec few{.batch = 2 + step % 3,
                            .heads_q = 2,
                            .seqlen_q = 100 + 7 * step,
                            .seqlen_kv = 8 * (20 + step),
                            .head_dim = step % 2 == 0 ? 64 : 128,
                            .bias = step < 12 ? "1hqk" : "bhqk",
                            .backward = true};
  few.want_dbias = true;
  return few;
}

}  // namespace

TEST_CASE("a backward's workspace keeps to its bound, and its parts do not overlap") {
  const codegen::Arch& arch = codegen::find_arch("sm_90a");
  const codegen::TemplateSet templates;
  int splits = 0, shares = 0;
  std::vector<int> methods(7);
  for (std::uint64_t i = 0; i < 318; ++i) {
    instance::ProblemSpec random = problem_number(i);
    random.leave_out = true;
    random.deterministic = i % 4 == 3;
    CAPTURE(instance::describe(random));
    const problem::BackwardProblem problem =
        problem::make_problem(instance::ShapeCall(random).backward());
    const problem::BackwardPlanKey key = problem::plan_key(problem);
    for (const codegen::BackwardTunables& way : ways(key, arch)) {
      CAPTURE(codegen::describe_tile(way));
      const auto spec = launch::make_backward_plan_spec(key.family, way, arch, templates);
      const launch::BackwardLayout layout = launch::workspace_layout(spec, problem);
      check({spec, layout, problem});
      splits += layout.grid.splits > 1;
      shares += layout.grid.dbias_shares > 1;
      ++methods[static_cast<std::size_t>(way.dbias_method)];
    }
  }
  CHECK(splits > 20);
  CHECK(shares > 20);
  for (const int uses : methods) CHECK(uses > 10);
}
