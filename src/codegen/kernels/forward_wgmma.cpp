// attn_fwd of templates/attnjit/forward/wgmma, for sm_90a.
#include <algorithm>

#include "codegen/formula_ranges.hpp"
#include "codegen/kernel_dtype.hpp"
#include "codegen/kernels/rows.hpp"
#include "codegen/kernels/score_kernel.hpp"
#include "codegen/literals.hpp"
#include "codegen/mask_form.hpp"
#include "expr/bounds.hpp"

namespace attnjit::kernel {

constexpr auto fields(const ForwardWgmmaConfig*) {
  using C = ForwardWgmmaConfig;
  return base::fields_of<C>(
      base::Field{"dtype", &C::dtype}, base::Field{"head_dim", &C::head_dim},
      base::Field{"head_dim_v", &C::head_dim_v}, base::Field{"gqa_ratio", &C::gqa_ratio},
      base::Field{"scale_first", &C::scale_first}, base::Field{"pack_gqa", &C::pack_gqa},
      base::Field{"block_q", &C::block_q}, base::Field{"block_kv", &C::block_kv},
      base::Field{"page_kv", &C::page_kv}, base::Field{"num_stages", &C::num_stages},
      base::Field{"producer_registers", &C::producer_registers},
      base::Field{"min_blocks", &C::min_blocks}, base::Field{"teams", &C::teams},
      base::Field{"row_max", &C::row_max}, base::Field{"plans_work", &C::plans_work},
      base::Field{"shares_masked_path", &C::shares_masked_path});
}

}  // namespace attnjit::kernel

namespace attnjit::codegen {
namespace {

using problem::Extent;
using problem::Family;

// Whether thread blocks take blocks of rows from a counter, because the costs of these are unknown
// to the host or uneven: tiles are dropped by the contents of a mask or of an operand, lengths lie
// on the device, or the first rows of a window see fewer keys than the others, which leaves the
// busiest of 132 thread blocks with 5 to 30 % more than the mean; the few queries of pack_gqa cost
// alike. A mask over keys alone costs the rows of a batch element alike. Beside a bias over pairs,
// as in triangle attention, whose batch elements have few tiles each, a counter costs more than it
// saves: 5 % at N 384, D 32 (H100, 2026-11-28).
bool counts_work(const Family& f, bool packs_heads) {
  const bool by_mask =
      mask_form(f) == MaskForm::kBits && (f.mask == Extent::kPerPair || f.bias != Extent::kPerPair);
  const bool by_operand =
      f.keep && (f.keep->blocks.rows != 0 || !ranged_axes(*f.keep, packs_heads).empty());
  const bool by_window = problem::has_left_bound(f) && !packs_heads;
  return f.packed || f.seqlens || by_mask || by_operand || by_window;
}

// Whether rows keep blocks of keys by lists, and nothing else drops keys for which V is
// zero-filled.
bool has_long_lists(const Family& f) {
  if (!f.keep || f.keep->blocks.rows == 0 || f.packed || f.seqlens || f.page_size > 0) return false;
  if (f.mask != Extent::kAbsent || problem::has_left_bound(f) || problem::has_right_bound(f)) {
    return false;
  }
  const expr::KeyBounds bounds = expr::key_bounds(f.keep->expression);
  return !bounds.lower && !bounds.upper && expr::key_conjuncts(f.keep->expression).empty();
}

// Registers of the warps that load, so that they spill little, and those that multiply nothing
// (ptxas 13.0).
int producer_registers(const Family& f, const ForwardTunables& tunables) {
  // Three warpgroups that multiply leave 8 more beside few keys: 124 bytes are spilled, not 372,
  // where the warps that load find out what each of them sees (NVRTC 12.6; with others none).
  if (tunables.block_q == 192) return tunables.block_kv <= 64 ? 40 : 32;
  const bool paged = f.page_size > 0;
  // Two warpgroups that multiply have as many beside 56 as beside 48.
  const int own = f.bias != Extent::kPerPair ? 40 : f.head_dim > 128 || paged ? 56 : 48;
  // Places of pages want some more, and a single warpgroup that multiplies leaves them.
  return tunables.block_q == 64 && paged ? std::max(own, 48) : own;
}

}  // namespace

kernel::ForwardWgmmaConfig forward_wgmma_config(const Family& f, const ForwardTunables& t) {
  kernel::ForwardWgmmaConfig config = {
      .dtype = kernel_dtype(f.dtype),
      .head_dim = f.head_dim,
      .head_dim_v = f.head_dim_v,
      .gqa_ratio = f.gqa_ratio,
      .scale_first = scales_first(f),
      .pack_gqa = t.pack_gqa,
      .block_q = t.block_q,
      .block_kv = t.block_kv,
      .page_kv = kernel::keys_of_page(f.page_size, t.block_kv),
      .num_stages = t.num_stages,
      .producer_registers = producer_registers(f, t),
      .min_blocks = 2,
      .teams = 1,
      .row_max = f.row_max,
      .plans_work = counts_work(f, t.pack_gqa),
      // A second text costs such a kernel more than the branches do: 1 to 5 % on an H100.
      .shares_masked_path = f.bias == Extent::kPerPair};
  // Of small tiles an SM holds two thread blocks, one of which multiplies while the other computes
  // exponentials. With pack_gqa there are few blocks of rows.
  if (config.pack_gqa || !config.has_small_tile()) config.min_blocks = 1;
  // Where registers allow one, two teams do the same.
  if (config.min_blocks == 1 && has_long_lists(f)) {
    config.teams = 2;
    if (config.pack_gqa || !config.has_team_tile()) config.teams = 1;
  }
  return config;
}

Rule why_no_wgmma(const Family& f, const Arch& arch) {
  if (!arch.wgmma) return fmt::format("wgmma does not exist on {}", arch.name);
  if (mask_form(f) == MaskForm::kPackedRow) {
    return "wgmma does not support a mask over keys with cu_seqlens_kv";
  }
  if (mask_form(f) == MaskForm::kBytes) {
    return "wgmma does not support a mask that is read as bytes, as with at most 16 query rows";
  }
  if (f.key_indices.in_place()) return "wgmma does not read selected keys in place";
  if (!fits_pages(32, f.page_size)) return "wgmma needs page_size 16 or a multiple of 32";
  if (!f.aligned) {
    return "wgmma needs addresses and strides of q, k, v and out to be multiples of 16 bytes";
  }
  return std::nullopt;
}

ForwardFacts facts(const kernel::ForwardWgmmaConfig& config) {
  return {.block_q = config.block_q,
          .block_kv = config.block_kv,
          .pack_gqa_heads = config.pack_gqa_heads(),
          .scale_first = config.scale_first,
          .persistent = true,
          .plans_work = config.plans_work};
}

Rule why_unfit(const kernel::ForwardWgmmaConfig& config, const ForwardTunables& t, const Family& f,
               const Arch& arch) {
  if (const Rule rule = why_no_wgmma(f, arch)) return fmt::format("path: {}; use mma", *rule);
  if (Rule rule = why_lacking(t)) return rule;
  if (Rule rule = why_invalid(config, config.shared_bytes(), arch)) return rule;
  if (fits_pages(t.block_kv, f.page_size)) return std::nullopt;
  return fmt::format("block_kv must divide or be a multiple of page_size {} with path wgmma",
                     f.page_size);
}

Source render(const kernel::ForwardWgmmaConfig& config, const Family& family,
              const ForwardTunables& tunables, const TemplateSet& templates) {
  return render_score_kernel(
      {.entry = "attn_fwd",
       .header = "forward/wgmma/kernel.cuh",
       .function = "forward_wgmma",
       .params = {"ForwardWgmmaParams", "params"},
       .config_type = "ForwardWgmmaConfig",
       .config = initialiser(config),
       .packs_heads = config.pack_gqa_heads() > 1},
      fmt::format("attn_fwd {} | {}", describe(family), describe_tile(tunables)), family,
      Pass::kForward, templates);
}

}  // namespace attnjit::codegen
