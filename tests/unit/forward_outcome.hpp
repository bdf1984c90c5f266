#pragma once
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <concepts>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "launch/forward_arguments.hpp"
#include "runtime/load/engine.hpp"
#include "unit/forward_fixtures.hpp"

namespace attnjit::test {

using Members = std::map<std::string, std::string>;

// The members of each parameter block as text. A member that is missing here does not compile.
template <class T>
inline std::string text(T* pointer) {
  return fmt::format("{}", fmt::ptr(pointer));
}
inline std::string text(int value) { return fmt::to_string(value); }
inline std::string text(float value) { return fmt::format("{:a}", value); }
inline std::string text(const kernel::RowStrides& strides) {
  const auto& [batch, head, row] = strides;
  return fmt::format("{},{},{}", batch, head, row);
}

inline void put(Members& m, const kernel::ForwardParams& params) {
  const auto& [q, k, v, out, lse, partial_out, partial_lse, q_strides, k_strides, v_strides,
               out_strides, num_heads_q, seqlen_q, seqlen_kv, num_q_tiles, num_splits, num_planes,
               section_planes, score_scale, exponent_scale] = params;
  m.merge(Members{{"q", text(q)},
                  {"k", text(k)},
                  {"v", text(v)},
                  {"out", text(out)},
                  {"lse", text(lse)},
                  {"q_strides", text(q_strides)},
                  {"k_strides", text(k_strides)},
                  {"v_strides", text(v_strides)},
                  {"out_strides", text(out_strides)},
                  {"num_heads_q", text(num_heads_q)},
                  {"seqlen_q", text(seqlen_q)},
                  {"seqlen_kv", text(seqlen_kv)},
                  {"num_q_tiles", text(num_q_tiles)},
                  {"score_scale", text(score_scale)},
                  {"num_splits", text(num_splits)},
                  {"num_planes", text(num_planes)},
                  {"section_planes", text(section_planes)},
                  {"partial_out", fmt::to_string(fmt::ptr(partial_out))},
                  {"partial_lse", fmt::to_string(fmt::ptr(partial_lse))},
                  {"exponent_scale", text(exponent_scale)}});
}
inline void put(Members& m, const kernel::ForwardWgmmaParams& params) {
  const auto& [base, schedule, work_taken, zero, q, k, v, k_tail, v_tail, out, bias] = params;
  put(m, base);
  m["work_taken"] = fmt::to_string(fmt::ptr(work_taken));
  m["schedule"] = fmt::format("{} {} {} {} {}", schedule.num_blocks, schedule.num_planes,
                              schedule.tiles_per_plane, schedule.paired_rounds, zero);
  const std::map<std::string, const kernel::TensorMap*> maps = {
      {"q", &q},           {"k", &k},     {"v", &v},      {"k_tail", &k_tail},
      {"v_tail", &v_tail}, {"out", &out}, {"bias", &bias}};
  for (const auto& [name, map] : maps)
    m["map of " + name] = fmt::format("{}", fmt::join(map->word, " "));
}
inline void put(Members& m, const kernel::BandParams& params) {
  const auto& [left, right, bottom_right] = params;
  m.merge(
      Members{{"left", text(left)}, {"right", text(right)}, {"bottom_right", text(bottom_right)}});
}
inline void put(Members& m, const kernel::SeqlensParams& params) {
  const auto& [q, kv] = params;
  m.merge(Members{{"seqlens_q", text(q)}, {"seqlens_kv", text(kv)}});
}
inline void put(Members& m, const kernel::PackedSequencesParams& params) {
  const auto& [q, kv, used_q, used_kv, operand_queries, operand_keys, work] = params;
  m["sequences"] = fmt::format("{} {} {} {} {} {} {} {}", fmt::ptr(q.begins), fmt::ptr(kv.begins),
                               q.num_sequences, fmt::ptr(used_q), fmt::ptr(used_kv), q.num_rows,
                               operand_queries, operand_keys);
  m["work"] = fmt::format("{} {}", fmt::ptr(work.tiles), fmt::ptr(work.counts));
}
inline void put(Members& m, const kernel::PackedOrderParams& params) {
  const auto& [q, kv, used_kv, costs, work, num_planes, num_kv_heads, most_sections, num_blocks] =
      params;
  m["order"] = fmt::format("{} {} {} {} {} {} {}", fmt::ptr(q.begins), fmt::ptr(kv.begins),
                           fmt::ptr(used_kv), q.num_sequences, q.num_rows, kv.num_rows,
                           fmt::ptr(work.tiles));
  m["sections"] = fmt::format("{} {} {} {}", num_planes, num_kv_heads, most_sections, num_blocks);
  m["costs"] =
      fmt::format("{} {} {} {}", costs.rising, costs.bottom_right, costs.ahead, costs.widest);
}
inline void put(Members& m, const kernel::SoftcapParams& params) {
  const auto& [cap, ratio, most, lead, near] = params;
  m["softcap"] = fmt::format("{} {} {} {} {}", cap, ratio, most, lead, fmt::join(near, " "));
}
template <int kOperands>
void put(Members& m, const char* name, const kernel::ExpressionParams<kOperands>& params) {
  const auto& [bottom_right, offset, row_offset, key_offset, operands] = params;
  std::string& all = m[name] =
      fmt::format("{} {} {} {}", bottom_right, offset, row_offset, key_offset);
  for (const auto& [data, strides, sizes, ranges, lines, length] : operands) {
    all += fmt::format("; {} {} {} {} {} {}", fmt::ptr(data), fmt::join(strides, " "),
                       fmt::join(sizes, " "), fmt::ptr(ranges), fmt::ptr(lines), length);
  }
}
inline void put(Members& m, const kernel::OperandRangesParams& params) {
  std::string& all = m["operand_ranges"] = fmt::to_string(fmt::ptr(params.work_taken));
  for (const auto& [data, ranges, lines, strides, sizes, length, element_bytes, end_range] :
       params.operands) {
    if (end_range == 0) break;  // it and those that follow are none
    all += fmt::format("; {} {} {} {} {} {} {} {}", fmt::ptr(data), fmt::ptr(ranges),
                       fmt::ptr(lines), fmt::join(strides, " "), fmt::join(sizes, " "), length,
                       element_bytes, end_range);
  }
}
inline void put(Members& m, const kernel::BlockListsParams& params) {
  const auto& [kinds, lines, num_heads, row_blocks, key_blocks, line_bytes, work_taken] = params;
  std::string& all = m["block_lists"] =
      fmt::format("{} {} {} {} {} {}", lines, num_heads, row_blocks, key_blocks, line_bytes,
                  fmt::ptr(work_taken));
  for (const auto& [indices, counts, index_strides, count_strides, most, listed] : kinds) {
    all += fmt::format("; {} {} {} {}", fmt::join(index_strides, " "),
                       fmt::join(count_strides, " "), most, fmt::ptr(listed));
  }
  m["blocks.indices"] = fmt::to_string(fmt::ptr(kinds[0].indices));
  m["blocks.counts"] = fmt::to_string(fmt::ptr(kinds[0].counts));
  m["blocks.full_indices"] = fmt::to_string(fmt::ptr(kinds[1].indices));
  m["blocks.full_counts"] = fmt::to_string(fmt::ptr(kinds[1].counts));
}
inline void put(Members& m, const kernel::GatherKeysParams& params) {
  const auto& [k, v, k_strides, v_strides, indices, index_strides, seqlens_kv, num_keys,
               num_selected, num_heads, num_batches, k_copy, v_copy, selected, key_numbers,
               work_taken] = params;
  m["gathered k"] = fmt::to_string(fmt::ptr(k));
  m["gathered v"] = fmt::to_string(fmt::ptr(v));
  m["key_indices"] = fmt::to_string(fmt::ptr(indices));
  m["gathered lengths"] = fmt::to_string(fmt::ptr(seqlens_kv));
  m["gather"] = fmt::format("{} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {}", k_strides.batch,
                            k_strides.head, k_strides.row, v_strides.batch, v_strides.head,
                            v_strides.row, fmt::join(index_strides, " "), num_keys, num_selected,
                            num_heads, num_batches, fmt::ptr(k_copy), fmt::ptr(v_copy),
                            fmt::ptr(selected), fmt::ptr(key_numbers), fmt::ptr(work_taken));
}
inline void put(Members& m, const kernel::SelectedKeysParams& params) {
  const auto& [indices, batch_stride, head_stride, key_stride, seqlens_kv, num_keys] = params;
  m["key_indices"] = fmt::to_string(fmt::ptr(indices));
  m["lengths in place"] = fmt::to_string(fmt::ptr(seqlens_kv));
  m["in place"] = fmt::format("{} {} {} {}", batch_stride, head_stride, key_stride, num_keys);
}
inline void put(Members& m, const kernel::SinkParams& params) {
  const auto& [data, head_stride] = params;
  m["sink"] = fmt::format("{} {}", fmt::ptr(data), head_stride);
}
inline void put(Members& m, const kernel::AlibiParams& params) {
  const auto& [slopes, batch_stride, head_stride, offset, bottom_right] = params;
  m["alibi"] = fmt::format("{} {} {} {} {}", fmt::ptr(slopes), batch_stride, head_stride, offset,
                           bottom_right);
}
inline void put(Members& m, const kernel::PagedKeysParams& params) {
  const auto& [pages, stride] = params;
  m["block_table"] = text(pages);
  m["table_stride"] = fmt::to_string(stride);
}
inline void put(Members& m, const kernel::TailMaskParams& params) {
  const auto& [mask, batch, query, key] = params;
  m["tail_mask"] = fmt::format("{} {},{},{}", fmt::ptr(mask), batch, query, key);
}
inline void put(Members& m, const std::string& name, const kernel::OperandParams& params) {
  const auto& [data, batch, head, query, key, heads_per_plane, batches_per_plane] = params;
  m[name] = text(data);
  m[name + "_strides"] = fmt::format("{},{},{},{}", batch, head, query, key);
  m[name + "_heads_per_plane"] = text(heads_per_plane);
  m[name + "_batches_per_plane"] = text(batches_per_plane);
}
inline void put(Members& m, const std::string& name, const kernel::BatchCycle& cycle) {
  const auto& [planes, period] = cycle;
  m[name + "_cycle"] = fmt::format("{},{}", planes, period);
}
inline void put(Members& m, const kernel::BitMaskParams& params) {
  const auto& [words, classes, words_per_plane, classes_per_plane, planes_per_batch,
               heads_per_plane, batches_per_plane, words_per_row, num_q_tiles, num_kv_tiles] =
      params;
  m["bits"] = fmt::format("{} {} {} {} {} {} {} {} {} {}", fmt::ptr(words), fmt::ptr(classes),
                          words_per_plane, classes_per_plane, planes_per_batch, heads_per_plane,
                          batches_per_plane, words_per_row, num_q_tiles, num_kv_tiles);
}
inline void put(Members& m, const kernel::BackwardMaskParams& params) {
  const auto& [bits, columns] = params;
  m["by_keys"] = fmt::format("{} {}", fmt::ptr(bits.words), fmt::ptr(columns));
}
inline void put(Members& m, const kernel::MaskToBitsParams& params) {
  const auto& [data, words, columns, classes, batch, head, query, key, num_heads, seqlen_q,
               seqlen_kv, words_per_row, num_q_tiles, num_kv_tiles, num_key_blocks, work_taken] =
      params;
  m["cleared with the mask"] = fmt::to_string(fmt::ptr(work_taken));
  m["mask_from"] = text(data);
  m["to_bits"] =
      fmt::format("{} {} {},{},{},{} {} {} {} {} {} {} {} {}", fmt::ptr(words), fmt::ptr(classes),
                  batch, head, query, key, num_heads, seqlen_q, seqlen_kv, words_per_row,
                  num_q_tiles, num_kv_tiles, fmt::ptr(columns), num_key_blocks);
}

inline void put(Members& m, const kernel::ForwardCombineParams& params) {
  const auto& [partial_out, partial_lse, out, lse, strides, num_heads_q, seqlen_q, num_splits,
               partial_row_max, row_max] = params;
  m["combine"] = fmt::format("{} {} {} {} {},{},{} {} {} {} {} {}", fmt::ptr(partial_out),
                             fmt::ptr(partial_lse), out, fmt::ptr(lse), strides.batch, strides.head,
                             strides.row, num_heads_q, seqlen_q, num_splits,
                             fmt::ptr(partial_row_max), fmt::ptr(row_max));
}
// With the order of kernel::PlaneOrder.
template <class Params>
requires std::same_as<Params, kernel::ForwardSingleTileParams> ||
    std::same_as<Params, kernel::ForwardSharedBiasParams>
void put(Members& m, const Params& params) {
  const auto& [base, order, num_blocks] = params;
  const auto& [batch, sharers, run, cycle] = order;
  put(m, base);
  m["order"] =
      fmt::format("{} {} {} {} {} {}", batch, sharers, run, cycle.planes, cycle.period, num_blocks);
}
inline void put(Members& m, const kernel::MaxLogitsParams& params) {
  const auto& [row_max, max_logits, batch, num_heads_q, seqlen_q] = params;
  m["max_logits"] = fmt::format("{} {} {} {} {}", fmt::ptr(row_max), fmt::ptr(max_logits), batch,
                                num_heads_q, seqlen_q);
}

// Keeps what a tensor map was made from: its address, and a hash of the rest.
inline CUresult CUDAAPI encode_hash(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank,
                                    void* address, const cuuint64_t* extents,
                                    const cuuint64_t* strides, const cuuint32_t* box,
                                    const cuuint32_t* steps, CUtensorMapInterleave,
                                    CUtensorMapSwizzle swizzle, CUtensorMapL2promotion,
                                    CUtensorMapFloatOOBfill) {
  std::vector<std::uint64_t> parts = {type, rank, swizzle};
  for (cuuint32_t i = 0; i < rank; ++i) {
    parts.insert(parts.end(), {extents[i], i == 0 ? 0 : strides[i - 1], box[i], steps[i]});
  }
  const base::Digest hash = base::sha256(
      {reinterpret_cast<const char*>(parts.data()), parts.size() * sizeof(parts.front())});
  auto* const words = reinterpret_cast<kernel::TensorMap*>(map)->word;
  words[0] = reinterpret_cast<std::uintptr_t>(address);
  std::memcpy(words + 1, hash.data(), hash.size());
  return CUDA_SUCCESS;
}

// Everything that a call launches, and the problem that it stands for.
struct Outcome {
  problem::Problem problem;
  std::vector<std::string> kernels;  // source, entry, threads, shared memory of each step
  std::vector<cache::KernelKey> keys;
  Members values;  // parameters, grids and workspace
};

inline Outcome outcome(const ForwardArgs& args, const codegen::Arch& arch) {
  static runtime::Engine engine(base::parse_environment([](const char*) { return std::nullopt; }));
  Outcome o{problem::make_problem(args), {}, {}, {}};
  const auto spec = engine.plan(o.problem, arch);
  const auto layout = launch::workspace_layout(spec, o.problem);
  const launch::ForwardArguments arguments(spec, o.problem, args, layout, fake_address(9),
                                           encode_hash);
  const auto& [forward, single_tile, shared_bias, features, mask_to_bits, block_lists, gather_keys,
               operand_ranges, clear_count, packed_order, combine, max_logits] = arguments.values();
  const auto& [sequences, seqlens, softcap, bias, row_mask, bit_mask, byte_mask, band, sink, alibi,
               row_max, pages, selected, tail_mask, backward_mask, score, keep] = features;
  if (spec.facts.shared_bias) {
    put(o.values, shared_bias);
  } else if (std::holds_alternative<kernel::ForwardWgmmaConfig>(spec.kernel)) {
    put(o.values, forward);
  } else {
    put(o.values, forward.base);
  }
  if (spec.facts.single_tile) put(o.values, single_tile);
  put(o.values, band);
  put(o.values, sequences);
  put(o.values, seqlens);
  put(o.values, softcap);
  put(o.values, "bias", bias);
  put(o.values, sink);
  put(o.values, alibi);
  put(o.values, pages);
  if (o.problem.selection.in_place) put(o.values, selected);
  put(o.values, tail_mask);
  put(o.values, "row_mask", row_mask);
  put(o.values, bit_mask);
  put(o.values, "bias", bias.cycle);
  put(o.values, "row_mask", row_mask.cycle);
  put(o.values, "bits", bit_mask.cycle);
  put(o.values, backward_mask);
  if (o.problem.score) put(o.values, "score", score);
  if (o.problem.keep) put(o.values, "keep", keep);
  put(o.values, mask_to_bits);
  if (spec.block_lists) put(o.values, block_lists);
  if (spec.gather_keys) put(o.values, gather_keys);
  if (spec.operand_ranges) put(o.values, operand_ranges);
  o.values["cleared"] = fmt::to_string(fmt::ptr(clear_count.count));
  put(o.values, packed_order);
  put(o.values, combine);
  put(o.values, max_logits);
  o.values["row_max"] = text(row_max.target);
  o.values["workspace"] = fmt::format(
      "{} {} {} {} {} {} {} {} {} {} {} {}", layout.mask, layout.block_lists, layout.selection,
      layout.operand_ranges, layout.work_taken, layout.order, layout.order_counts,
      layout.partial_out, layout.partial_lse, layout.partial_row_max, layout.row_max, layout.bytes);
  for (std::size_t i = 0; i < spec.steps.size(); ++i) {
    const launch::StepSpec& step = spec.steps[i];
    const auto& [source, threads, shared_bytes, min_blocks, overlaps, wgmma] = step;
    const auto& [grid, block, shared, overlap] = arguments.shape(i);
    o.values[fmt::format("shape{}", i)] =
        fmt::format("{} {} {} {} {} {} {}", arguments.runs(i), grid[0], grid[1], grid[2], block,
                    shared, overlap);
    o.kernels.push_back(fmt::format("{} {} {} {} {}\n{}", source.entry, threads, shared_bytes,
                                    min_blocks, overlaps, source.text));
    o.keys.push_back(engine.key(source, arch));
  }
  return o;
}

}  // namespace attnjit::test
