#include "cli/input/problem_flags.hpp"

#include <algorithm>
#include <charconv>
#include <functional>
#include <string_view>

#include "cli/input/words.hpp"

namespace attnjit::cli {
namespace {

using instance::ProblemSpec;

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  return error == std::errc{} && rest == end ? std::optional(value) : std::nullopt;
}

Window parse_window(std::string_view text) {
  const std::size_t comma = text.find(',');
  if (comma != std::string_view::npos) {
    const auto left = whole_number(text.substr(0, comma));
    const auto right = whole_number(text.substr(comma + 1));
    if (left && right && *left >= -1 && *right >= -1) return {*left, *right};
  }
  usage_error(
      "--window: '{}'; expected L,R: keys before and after the diagonal, -1 = open, such "
      "as 4095,0",
      base::excerpt(text));
}

void set_sizes(const ProblemFlags& flags, ProblemSpec& spec) {
  if (flags.dtype) spec.dtype = choose("--dtype", *flags.dtype, kDtypes);
  spec.batch = flags.batch.value_or(1);
  spec.heads_q = flags.heads_q.value_or(kDefaultHeads);
  spec.heads_kv = flags.heads_kv.value_or(spec.heads_q);
  spec.seqlen_q = flags.seqlen_q.value_or(kDefaultSeqlen);
  spec.seqlen_kv = flags.seqlen_kv.value_or(spec.seqlen_q);
  spec.head_dim = flags.head_dim.value_or(kDefaultHeadDim);
  spec.head_dim_v = flags.head_dim_v.value_or(spec.head_dim);
  if (flags.layout) spec.memory.layout = choose("--layout", *flags.layout, kLayouts);
  if (flags.seed) spec.seed = *flags.seed;
}

void expect_rising(std::string_view flag, const std::vector<std::int32_t>& begins) {
  const auto fall = std::ranges::adjacent_find(begins, std::ranges::greater());
  if (fall == begins.end()) return;
  usage_error("{}: {} after {}; expected numbers that do not fall", flag, fall[1], fall[0]);
}

// Lengths that are given tell how many sequences and, where no flag does, how many rows there are.
void set_packing(const ProblemFlags& flags, ProblemSpec& spec) {
  const std::vector<std::int32_t>& q = flags.cu_seqlens_q;
  const std::vector<std::int32_t>& kv = flags.cu_seqlens_kv.empty() ? q : flags.cu_seqlens_kv;
  spec.packed = flags.packed || !kv.empty();
  if (kv.empty()) return;
  expect_rising("--cu-seqlens-q", q);
  expect_rising("--cu-seqlens-kv", kv);
  if (q.empty()) usage_error("--cu-seqlens-kv has no effect without --cu-seqlens-q; add it");
  if (q.size() < 2 || q.size() != kv.size()) {
    usage_error("--cu-seqlens-q, --cu-seqlens-kv: {} and {} numbers; expected as many, 2 or more",
                q.size(), kv.size());
  }
  const auto sequences = static_cast<std::int64_t>(q.size()) - 1;
  if (flags.batch.value_or(sequences) != sequences) {
    usage_error("--batch: {}; --cu-seqlens-q has {} sequences; leave --batch out", *flags.batch,
                sequences);
  }
  spec.batch = sequences;
  spec.seqlen_q = flags.seqlen_q.value_or(q.back());
  spec.seqlen_kv = flags.seqlen_kv.value_or(kv.back());
  spec.cu_seqlens_q = q;
  if (!flags.page_size) spec.cu_seqlens_kv = kv;
}

// Pages take the place of the bounds of keys.
void set_pages(const ProblemFlags& flags, ProblemSpec& spec) {
  if (flags.shared_pages && !flags.page_size) {
    usage_error("--shared-pages has no effect without --page-size; add it");
  }
  if (flags.page_size && *flags.page_size < 1) {
    usage_error("--page-size: {}; expected 1 or more; leave it out where keys have no pages",
                *flags.page_size);
  }
  if (flags.page_size && !flags.cu_seqlens_kv.empty()) {
    usage_error("--cu-seqlens-kv has no effect with --page-size; leave it out");
  }
  spec.page_size = flags.page_size.value_or(0);
  spec.shared_pages = flags.shared_pages.value_or(0);
}

void set_band(const ProblemFlags& flags, ProblemSpec& spec) {
  if (flags.diagonal) spec.diagonal = choose("--diagonal", *flags.diagonal, kDiagonals);
  if (flags.causal) {
    spec.causal = true;
    if (!flags.causal->empty()) {
      const Diagonal diagonal = choose("--causal", *flags.causal, kDiagonals);
      if (flags.diagonal && diagonal != spec.diagonal) {
        usage_error("--causal {} contradicts --diagonal {}; give one of them", *flags.causal,
                    *flags.diagonal);
      }
      spec.diagonal = diagonal;
    }
  }
  if (flags.window) spec.window = parse_window(*flags.window);
  const bool banded = spec.causal || flags.window;
  if (banded && spec.diagonal == Diagonal::kUnspecified) {
    usage_error(
        "{} does not say where the diagonal starts; add --diagonal bottom-right (decoding, "
        "prefill on a cache) or --diagonal top-left",
        spec.causal ? "--causal" : "--window");
  }
  const bool has_diagonal = banded || flags.alibi || flags.score || flags.keep;
  if (!has_diagonal && (flags.diagonal || flags.diagonal_offset)) {
    usage_error(
        "{} has no effect without --causal, --window, --alibi, --score or --keep; add one or "
        "leave it out",
        flags.diagonal ? "--diagonal" : "--diagonal-offset");
  }
  spec.alibi = flags.alibi.value_or("");
  spec.diagonal_offset = flags.diagonal_offset.value_or(0);
  if (!flags.score && !flags.keep && (flags.row_offset || flags.key_offset)) {
    usage_error("{} has no effect without --score or --keep; add one or leave it out",
                flags.row_offset ? "--row-offset" : "--key-offset");
  }
  spec.row_offset = flags.row_offset.value_or(0);
  spec.key_offset = flags.key_offset.value_or(0);
}

void expect_companion(bool given, std::string_view flag, bool present, std::string_view companion) {
  if (!given || present) return;
  usage_error("{} has no effect without {} PATTERN; add it or leave {} out", flag, companion, flag);
}

void set_mask(const ProblemFlags& flags, ProblemSpec& spec) {
  expect_companion(flags.mask_kind.has_value(), "--mask-kind", flags.mask.has_value(), "--mask");
  expect_companion(flags.mask_density.has_value(), "--mask-density", flags.mask.has_value(),
                   "--mask");
  expect_companion(flags.prepared_mask, "--prepared-mask", flags.mask.has_value(), "--mask");
  spec.prepare_mask = flags.prepared_mask;
  if (flags.mask) spec.mask = *flags.mask;
  if (flags.mask_kind) {
    const auto kind = tensor::parse_mask_kind(with_dashes(*flags.mask_kind));
    if (!kind) {
      usage_error("--mask-kind: '{}'; expected one of {}", base::excerpt(*flags.mask_kind),
                  listing(tensor::kMaskKindNames));
    }
    spec.mask_kind = *kind;
  }
  if (flags.mask_density) spec.mask_density = *flags.mask_density;
  if (!(spec.mask_density >= 0 && spec.mask_density <= 1)) {
    usage_error("--mask-density: {}; expected 0 to 1", spec.mask_density);
  }
}

void set_bias(const ProblemFlags& flags, ProblemSpec& spec) {
  expect_companion(flags.bias_dtype.has_value(), "--bias-dtype", flags.bias.has_value(), "--bias");
  expect_companion(flags.bias_kind.has_value(), "--bias-kind", flags.bias.has_value(), "--bias");
  if (flags.bias) spec.bias = *flags.bias;
  if (flags.bias_dtype) spec.bias_dtype = choose("--bias-dtype", *flags.bias_dtype, kBiasDtypes);
  if (!flags.bias_kind) return;
  const auto kind = tensor::parse_bias_kind(with_dashes(*flags.bias_kind));
  if (!kind) {
    usage_error("--bias-kind: '{}'; expected one of {}", base::excerpt(*flags.bias_kind),
                listing(tensor::kBiasKindNames));
  }
  spec.bias_kind = *kind;
}

void set_expressions(const ProblemFlags& flags, ProblemSpec& spec) {
  if (!flags.operands.empty() && !flags.score && !flags.keep) {
    usage_error("--operand has no effect without --score or --keep; add one or leave it out");
  }
  spec.score = flags.score.value_or("");
  spec.keep = flags.keep.value_or("");
  for (const std::string& operand : flags.operands) {
    spec.operands.push_back(instance::parse_operand(operand));
  }
}

void set_sink(const ProblemFlags& flags, ProblemSpec& spec) {
  if (!flags.sink && (flags.sink_dtype || flags.dsink)) {
    usage_error("{} has no effect without --sink; add it or leave {} out",
                flags.dsink ? "--dsink" : "--sink-dtype", flags.dsink ? "--dsink" : "--sink-dtype");
  }
  spec.use_sink = flags.sink;
  if (flags.sink_dtype) spec.sink_dtype = choose("--sink-dtype", *flags.sink_dtype, kBiasDtypes);
}

void set_maxima(const ProblemFlags& flags, ProblemSpec& spec) {
  if (flags.backward && (flags.row_max || flags.max_logits)) {
    usage_error("{0} has no effect with --backward; leave {0} out",
                flags.row_max ? "--row-max" : "--max-logits");
  }
  spec.want_row_max = flags.row_max;
  spec.want_max_logits = flags.max_logits;
}

void set_gradients(const ProblemFlags& flags, ProblemSpec& spec) {
  const auto expect_backward = [&](bool given, std::string_view flag) {
    if (!given || flags.backward) return;
    usage_error("{} has no effect without --backward; add it or leave {} out", flag, flag);
  };
  expect_backward(flags.dbias, "--dbias");
  expect_backward(flags.dlse, "--dlse");
  expect_backward(flags.dsink, "--dsink");
  expect_backward(!flags.grad.empty(), "--grad");
  expect_backward(flags.deterministic, "--deterministic");
  expect_companion(flags.dbias, "--dbias", flags.bias.has_value(), "--bias");
  if (flags.dbias_dtype && !flags.dbias) {
    usage_error("--dbias-dtype has no effect without --dbias; add it or leave --dbias-dtype out");
  }
  spec.backward = flags.backward;
  spec.want_dbias = flags.dbias;
  spec.want_dlse = flags.dlse;
  spec.want_dsink = flags.dsink;
  spec.grad = flags.grad;
  spec.deterministic = flags.deterministic;
  if (flags.dbias_dtype) {
    spec.dbias_dtype = choose("--dbias-dtype", *flags.dbias_dtype, kBiasDtypes);
  }
}

}  // namespace

Case make_case(const ProblemFlags& flags) {
  ProblemSpec spec;
  set_sizes(flags, spec);
  set_packing(flags, spec);
  set_band(flags, spec);
  set_mask(flags, spec);
  set_bias(flags, spec);
  set_sink(flags, spec);
  set_maxima(flags, spec);
  set_gradients(flags, spec);
  for (const problem::Scalar& scalar : problem::kScalars) {
    const auto given = flags.scalars.find(scalar.name);
    if (given != flags.scalars.end()) spec.*scalar.given = given->second;
  }
  spec.use_seqlens_q = spec.use_seqlens_kv = flags.seqlens;
  set_pages(flags, spec);
  spec.tail_mask = flags.tail_mask.value_or("");
  spec.blocks = flags.blocks.value_or("");
  spec.key_indices = flags.key_indices.value_or("");
  set_expressions(flags, spec);
  instance::validate(spec);
  return {instance::describe(spec), "", spec};
}

}  // namespace attnjit::cli
