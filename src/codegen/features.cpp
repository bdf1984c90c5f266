#include "codegen/features.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "codegen/expression_code.hpp"
#include "codegen/kernel_dtype.hpp"
#include "codegen/literals.hpp"
#include "codegen/mask_form.hpp"

namespace attnjit::codegen {
namespace {

using problem::Extent;
using problem::Family;
using enum Feature::Effect;

std::string sequences(const Family& f, Pass) {
  return f.packed ? fmt::format("PackedSequences<{}>", literal(f.page_size > 0)) : "";
}

std::string seqlens(const Family& f, Pass) { return f.seqlens ? "Seqlens" : ""; }

// The addend of a score expression that does nothing else to the scores.
std::optional<expr::Expr> addend(const Family& f) {
  if (!f.score || f.softcap) return std::nullopt;
  return addend_of(f.score->expression);
}

std::string score(const Family& f, Pass) {
  return f.score && !expressed_cap(f) && !addend(f) ? "ScoreExpression<kScores, ScoreFormula>" : "";
}

std::string score_text(const Family& f, bool packs_heads) {
  return score_formula(*f.score, packs_heads);
}

std::string softcap(const Family& f, Pass) {
  return f.softcap || expressed_cap(f) ? "Softcap" : "";
}

std::string score_addition(const Family& f, Pass) {
  return addend(f) ? "ScoreAddition<kScores, ScoreFormula>" : "";
}

std::string addition_text(const Family& f, bool packs_heads) {
  return addend_formula(*f.score, *addend(f), packs_heads);
}

std::string bias(const Family& f, Pass pass) {
  if (!problem::varies_over_keys(f.bias)) return "";
  return fmt::format("Bias<kScores, {}, {}, {}{}>", literal(kernel_dtype(f.bias_dtype)),
                     literal(f.bias), literal(f.bias_vectorized),
                     pass == Pass::kBackward ? ", kConfig.late" : "");
}

// The backward's preprocess kernel takes it off lse.
std::string row_bias(const Family& f, Pass pass) {
  if (f.bias != Extent::kPerQuery || pass == Pass::kBackward) return "";
  return fmt::format("RowBias<{}>", literal(kernel_dtype(f.bias_dtype)));
}

std::string alibi(const Family& f, Pass) {
  if (!f.alibi) return "";
  return fmt::format("Alibi<kScores, {}, {}>", literal(std::max(f.head_dim, f.head_dim_v) > 128),
                     literal(f.alibi_one_sided));
}

std::string bit_mask(const Family& f, Pass pass) {
  if (mask_form(f) != MaskForm::kBits || pass == Pass::kBackward) return "";
  return fmt::format("BitMask<kScores, {}>", literal(f.mask));
}

std::string backward_mask(const Family& f, Pass pass) {
  if (mask_form(f) != MaskForm::kBits || pass == Pass::kForward) return "";
  return fmt::format("BackwardMask<kScores, {}, kConfig.late>", literal(f.mask));
}

std::string key_mask(const Family& f, Pass) {
  if (mask_form(f) != MaskForm::kBytes) return "";
  return fmt::format("KeyMask<kScores, {}>", literal(f.mask_vectorized));
}

std::string packed_keys_mask(const Family& f, Pass) {
  return mask_form(f) == MaskForm::kPackedRow ? "PackedKeysMask<kScores>" : "";
}

// The backward's preprocess kernel tells the others: rows that it drops are dead.
std::string row_mask(const Family& f, Pass pass) {
  return f.mask == Extent::kPerQuery && pass == Pass::kForward ? "RowMask<kScores>" : "";
}

bool has_band(const Family& f) { return f.bounded_left || f.bounded_right; }

std::string band(const Family& f, Pass) {
  if (!has_band(f)) return "";
  return fmt::format("Band<kScores, {}, {}>", literal(f.bounded_left), literal(f.bounded_right));
}

std::string keep(const Family& f, Pass pass) {
  if (!f.keep) return "";
  return pass == Pass::kForward ? "KeepExpression<kScores, KeepFormula>"
                                : "BackwardKeepExpression<kScores, KeepFormula>";
}

std::string keep_text(const Family& f, bool packs_heads) {
  return keep_formula(*f.keep, packs_heads);
}

std::string length(const Family& f, Pass) { return has_band(f) ? "" : "Length<kScores>"; }

// In the backward lse tells of it.
std::string sink(const Family& f, Pass pass) {
  if (!f.sink || pass == Pass::kBackward) return "";
  return fmt::format("Sink<{}>", literal(kernel_dtype(f.sink_dtype)));
}

std::string row_max(const Family& f, Pass pass) {
  return f.row_max && pass == Pass::kForward ? "RowMax" : "";
}

std::string paged_keys(const Family& f, Pass) {
  return f.page_size > 0 ? fmt::format("PagedKeys<{}>", f.page_size) : "";
}

std::string selected_keys(const Family& f, Pass) {
  if (!f.key_indices.in_place()) return "";
  return fmt::format("SelectedKeys<kScores, {}>", f.key_indices.bytes());
}

std::string tail_mask(const Family& f, Pass) { return f.tail_mask ? "TailMask<kScores>" : ""; }

template <auto member>
const void* value(const FeatureValues& values) {
  return &(values.*member);
}

using V = FeatureValues;
constexpr Feature kFeatures[] = {
    {"sequences", "packed_sequences.cuh", "PackedSequencesParams", kDrops, sequences,
     value<&V::sequences>},
    {"seqlens", "seqlens.cuh", "SeqlensParams", kDrops, seqlens, value<&V::seqlens>},
    {"score", "score_expression.cuh", "ScoreParams", kTransforms, score, value<&V::score>, nullptr,
     nullptr, score_text},
    {"softcap", "softcap.cuh", "SoftcapParams", kTransforms, softcap, value<&V::softcap>},
    {"score", "score_addition.cuh", "ScoreParams", kAdds, score_addition, value<&V::score>, nullptr,
     nullptr, addition_text},
    {"bias", "bias.cuh", "OperandParams", kAdds, bias, value<&V::bias>, &Family::bias_groups_batch,
     &Family::bias_packs_keys},
    {"bias", "row_bias.cuh", "OperandParams", kDrops, row_bias, value<&V::bias>,
     &Family::bias_groups_batch},
    {"alibi", "alibi.cuh", "AlibiParams", kAdds, alibi, value<&V::alibi>},
    {"mask", "bit_mask.cuh", "BitMaskParams", kDrops, bit_mask, value<&V::bit_mask>,
     &Family::mask_groups_batch},
    {"mask", "backward_mask.cuh", "BackwardMaskParams", kDrops, backward_mask,
     value<&V::backward_mask>, &Family::mask_groups_batch},
    {"mask", "packed_keys_mask.cuh", "ByteMaskParams", kDrops, packed_keys_mask,
     value<&V::byte_mask>},
    {"mask", "key_mask.cuh", "ByteMaskParams", kDrops, key_mask, value<&V::byte_mask>,
     &Family::mask_groups_batch},
    {"mask", "row_mask.cuh", "OperandParams", kDrops, row_mask, value<&V::row_mask>,
     &Family::mask_groups_batch},
    {"band", "band.cuh", "BandParams", kDrops, band, value<&V::band>},
    {"keep", "keep_expression.cuh", "KeepParams", kDrops, keep, value<&V::keep>, nullptr, nullptr,
     keep_text},
    {nullptr, "length.cuh", nullptr, kDrops, length, nullptr},
    {"sink", "sink.cuh", "SinkParams", kDrops, sink, value<&V::sink>},
    {"row_max", "row_max.cuh", "RowMaxParams", kDrops, row_max, value<&V::row_max>},
    {"pages", "paged_keys.cuh", "PagedKeysParams", kDrops, paged_keys, value<&V::pages>},
    {"selected", "selected_keys.cuh", "SelectedKeysParams", kDrops, selected_keys,
     value<&V::selected>},
    {"tail_mask", "tail_mask.cuh", "TailMaskParams", kDrops, tail_mask, value<&V::tail_mask>},
};

static_assert(std::size(kFeatures) == kNumFeatures);

}  // namespace

std::vector<const Feature*> features(const Family& family, Pass pass) {
  std::vector<const Feature*> list;
  for (const Feature& feature : kFeatures) {
    if (!feature.policy(family, pass).empty()) list.push_back(&feature);
  }
  return list;
}

bool transforms_scores(const Family& family) {
  return std::ranges::any_of(features(family, Pass::kForward),
                             [](const Feature* f) { return f->effect == kTransforms; });
}

bool is_score(const Feature& feature) { return feature.parameter == value<&V::score>; }

bool reads_pairs(const Family& family) {
  if (!family.score) return false;
  const expr::Expr& e = family.score->expression;
  const std::vector<expr::Uses> uses = expr::uses_of_nodes(e);
  for (std::size_t n = 0; n < uses.size(); ++n) {
    if (e.nodes()[n].is(expr::Op::kRead) && (uses[n] & expr::kUsesPair) == expr::kUsesPair) {
      return true;
    }
  }
  return false;
}

std::optional<float> expressed_cap(const Family& family) {
  if (!family.score || family.softcap) return std::nullopt;
  return cap_of(family.score->expression);
}

bool scales_first(const Family& family) {
  return !family.positive_scale ||
         std::ranges::any_of(features(family, Pass::kForward),
                             [](const Feature* f) { return f->effect != kDrops; });
}

}  // namespace attnjit::codegen
