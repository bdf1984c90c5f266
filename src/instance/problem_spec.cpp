#include "instance/problem_spec.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "attnjit/error.hpp"
#include "base/printable.hpp"
#include "expr/declare.hpp"
#include "expr/parse.hpp"
#include "instance/blocks_spec.hpp"
#include "instance/call_args.hpp"
#include "instance/key_indices_spec.hpp"
#include "instance/pages.hpp"
#include "problem/problem.hpp"
#include "tensor/half.hpp"

namespace attnjit::instance {
namespace {

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorKind::kInvalidProblem, message);
}

void check_sizes(const ProblemSpec& spec) {
  const auto at_least = [](std::string_view name, std::int64_t value, std::int64_t least) {
    if (value < least) {
      refuse(fmt::format("{}: {}; expected {} or more", name, value, least));
    }
  };
  at_least("batch", spec.batch, 0);
  at_least("heads_q", spec.heads_q, 1);
  at_least("heads_kv", spec.heads_kv, 1);
  at_least("seqlen_q", spec.seqlen_q, 0);
  at_least("seqlen_kv", spec.seqlen_kv, 0);
  at_least("head_dim", spec.head_dim, 1);
  at_least("head_dim_v", spec.value_dim(), 1);
  at_least("base_offset", spec.memory.base_offset, 0);
  at_least("row_padding", spec.memory.row_padding, 0);
  if (!(spec.query_stddev >= 0) || !std::isfinite(spec.query_stddev)) {
    refuse(fmt::format("query_stddev: {}; expected 0 or more", spec.query_stddev));
  }
  if (spec.dominant_key && (spec.packed || spec.paged())) {
    refuse("dominant_key: set for packed sequences or paged keys; expected keys in a row");
  }
  if (spec.heads_q % spec.heads_kv != 0) {
    refuse(fmt::format("heads_kv: {}; expected a divisor of heads_q = {}", spec.heads_kv,
                       spec.heads_q));
  }
}

void check_seqlens(std::string_view name, bool used, const std::vector<std::int32_t>& values,
                   std::int64_t batch) {
  if (used && !values.empty() && static_cast<std::int64_t>(values.size()) != batch) {
    refuse(fmt::format("{}: {} values; expected {}", name, values.size(), batch));
  }
}

void check_packed(const ProblemSpec& spec) {
  if (!spec.packed && (!spec.cu_seqlens_q.empty() || !spec.cu_seqlens_kv.empty() ||
                       spec.operand_queries || spec.operand_keys)) {
    refuse(
        "cu_seqlens_q, cu_seqlens_kv, operand_queries, operand_keys: set for a batch of its own "
        "axis; expected packed to be set");
  }
  if (spec.packed && (spec.batch < 1 || spec.batch > problem::kMaxSequences)) {
    refuse(fmt::format("batch: {} packed sequences; expected 1 to {}", spec.batch,
                       problem::kMaxSequences));
  }
  check_seqlens("cu_seqlens_q", spec.packed, spec.cu_seqlens_q, spec.batch + 1);
  check_seqlens("cu_seqlens_kv", spec.packed, spec.cu_seqlens_kv, spec.batch + 1);
}

// Axes of stride 0 would be missed where a mask's sizes limit packed sequences.
void check_prepared_mask(const ProblemSpec& spec) {
  if (!spec.prepare_mask) return;
  if (!can_prepare_mask(spec)) {
    refuse(fmt::format(
        "prepare_mask: set for the mask '{}'; expected one that varies over the keys of "
        "each sequence, such as b11k or 1hqk",
        base::excerpt(spec.mask)));
  }
  if (spec.packed && spec.memory.expand_broadcast) {
    refuse("prepare_mask: set together with packed and expand_broadcast; leave one of them out");
  }
}

// The texts are of the language, and read the operands that there are.
bool uses_offset(const ProblemSpec& spec) {
  std::vector<Tensor> views;
  for (const OperandSpec& operand : spec.operands) views.push_back(operand_view(spec, operand));
  const auto declarations = expr::declarations(operands_of(spec, views));
  bool uses = false;
  const auto parse = [&](expr::Kind kind, const std::string& text) {
    if (text.empty()) return;
    uses |= (expr::uses(expr::parse(kind, text, declarations)) &
             expr::use_of(expr::Index::kOffset)) != 0;
  };
  parse(expr::Kind::kScore, spec.score);
  parse(expr::Kind::kKeep, spec.keep);
  return uses;
}

void check_backward(const ProblemSpec& spec) {
  if (!spec.backward &&
      (spec.want_dlse || spec.want_dbias || spec.want_dsink || !spec.grad.empty() ||
       spec.deterministic || spec.leave_out || spec.memory.expand_dout)) {
    refuse(
        "want_dlse, want_dbias, want_dsink, grad, deterministic, leave_out, expand_dout: set for a "
        "forward; expected backward to be set");
  }
  if (spec.backward && !spec.want_lse) {
    refuse("want_lse: unset for a backward; expected it to be set, because lse is an input");
  }
  for (const std::string& name : spec.grad) {
    if (std::ranges::find(spec.operands, name, &OperandSpec::name) == spec.operands.end()) {
      refuse(fmt::format("grad: '{}' is no operand", base::excerpt(name)));
    }
  }
  if (spec.want_dsink && !spec.use_sink) {
    refuse("want_dsink: set without a sink; expected use_sink to be set");
  }
  if (spec.want_dbias && spec.bias.empty()) {
    refuse("want_dbias: set without a bias; expected a pattern in bias");
  }
  const DType dtype = spec.dbias_dtype.value_or(spec.score_dtype());
  if (dtype != spec.score_dtype() && dtype != DType::kFloat32) {
    refuse(fmt::format("dbias_dtype: {}; expected {} or fp32", tensor::dtype_name(dtype),
                       tensor::dtype_name(spec.score_dtype())));
  }
}

}  // namespace

void validate(const ProblemSpec& spec) {
  check_sizes(spec);
  check_packed(spec);
  check_pages(spec);
  if (spec.dtype != DType::kFloat16 && spec.dtype != DType::kBFloat16) {
    refuse(fmt::format("dtype: {}; expected fp16 or bf16", tensor::dtype_name(spec.dtype)));
  }
  if (spec.bias_dtype && *spec.bias_dtype != spec.dtype && *spec.bias_dtype != DType::kFloat32) {
    refuse(fmt::format("bias_dtype: {}; expected {} or fp32", tensor::dtype_name(*spec.bias_dtype),
                       tensor::dtype_name(spec.dtype)));
  }
  if (spec.sink_dtype && *spec.sink_dtype != spec.dtype && *spec.sink_dtype != DType::kFloat32) {
    refuse(fmt::format("sink_dtype: {}; expected {} or fp32", tensor::dtype_name(*spec.sink_dtype),
                       tensor::dtype_name(spec.dtype)));
  }
  if (!spec.mask.empty()) {
    pattern_shape(spec, spec.mask, "mask");
  }
  check_prepared_mask(spec);
  if (!spec.blocks.empty()) block_lists_view(spec);
  if (!spec.key_indices.empty()) key_indices_view(spec);
  if (!spec.bias.empty()) {
    pattern_shape(spec, spec.bias, "bias");
  }
  if (spec.window.left < -1 || spec.window.right < -1) {
    refuse(fmt::format("window: ({}, {}); expected -1 (open) or more", spec.window.left,
                       spec.window.right));
  }
  if (!spec.alibi.empty() && spec.alibi != "h" && spec.alibi != "bh") {
    refuse(fmt::format("alibi: pattern '{}'; expected h or bh", base::excerpt(spec.alibi)));
  }
  const bool banded = spec.causal || spec.window.left >= 0 || spec.window.right >= 0;
  const bool differ =
      spec.packed || spec.seqlen_q != spec.seqlen_kv || spec.use_seqlens_q || spec.has_seqlens_kv();
  const bool placed = !spec.alibi.empty() || uses_offset(spec);
  if ((banded || (placed && differ)) && spec.diagonal == Diagonal::kUnspecified) {
    refuse("diagonal: not named; causal, window, alibi and off need top_left or bottom_right");
  }
  const auto check_offset = [](const char* what, std::int64_t offset) {
    if (-problem::kMaxSeqlen <= offset && offset <= problem::kMaxSeqlen) return;
    refuse(fmt::format("{}: {}; expected {} to {}", what, offset, -problem::kMaxSeqlen,
                       problem::kMaxSeqlen));
  };
  check_offset("diagonal_offset", spec.diagonal_offset);
  check_offset("row_offset", spec.row_offset);
  check_offset("key_offset", spec.key_offset);
  for (const problem::Scalar& scalar : problem::kScalars) {
    const auto& given = spec.*scalar.given;
    if (given && !scalar.takes(*given)) {
      refuse(fmt::format("{}: {}; expected {}", scalar.name, *given, scalar.allowed));
    }
  }
  check_seqlens("seqlens_q", spec.use_seqlens_q, spec.seqlens_q, spec.batch);
  check_seqlens("seqlens_kv", spec.use_seqlens_kv, spec.seqlens_kv, spec.batch);
  check_backward(spec);
}

bool can_prepare_mask(const ProblemSpec& spec) {
  if (spec.mask.empty()) return false;
  const auto [planes, heads, queries, keys] = pattern_shape(spec, spec.mask, "mask");
  const bool one_row = planes <= 1 && queries == 1 && keys == spec.seqlen_kv;
  return keys > 1 && spec.mask[3] == 'k' && !(spec.packed && !spec.paged() && one_row);
}

std::string describe(const ProblemSpec& spec) {
  std::string text =
      fmt::format("{} b{} h{}/{} q{} k{} d{}", tensor::dtype_name(spec.dtype), spec.batch,
                  spec.heads_q, spec.heads_kv, spec.seqlen_q, spec.seqlen_kv, spec.head_dim);
  const auto add = [&text](bool present, const std::string& words) {
    text += present ? " " + words : std::string();
  };
  add(spec.value_dim() != spec.head_dim, fmt::format("dv{}", spec.value_dim()));
  add(!spec.mask.empty(),
      fmt::format("mask={}:{}", spec.mask,
                  tensor::kMaskKindNames[static_cast<std::size_t>(spec.mask_kind)]));
  add(spec.prepare_mask, "prepared");
  add(!spec.bias.empty(),
      fmt::format("bias={}:{}:{}", spec.bias,
                  tensor::kBiasKindNames[static_cast<std::size_t>(spec.bias_kind)],
                  tensor::dtype_name(spec.score_dtype())));
  add(spec.causal, "causal");
  add(spec.window.left >= 0 || spec.window.right >= 0,
      fmt::format("window={},{}", spec.window.left, spec.window.right));
  add(spec.diagonal == Diagonal::kTopLeft, "top-left");
  add(spec.diagonal == Diagonal::kBottomRight, "bottom-right");
  add(spec.diagonal_offset != 0, fmt::format("diagonal-offset={}", spec.diagonal_offset));
  add(spec.row_offset != 0, fmt::format("row-offset={}", spec.row_offset));
  add(spec.key_offset != 0, fmt::format("key-offset={}", spec.key_offset));
  for (const problem::Scalar& scalar : problem::kScalars) {
    const auto& given = spec.*scalar.given;
    add(given.has_value(), fmt::format("{}={}", scalar.name, given.value_or(0)));
  }
  add(spec.use_sink,
      fmt::format("sink:{}{}", tensor::dtype_name(spec.sink_dtype.value_or(spec.dtype)),
                  spec.sinks.empty() ? "" : ":given"));
  add(!spec.alibi.empty(),
      fmt::format("alibi={}{}", spec.alibi, spec.slopes.empty() ? "" : ":given"));
  const auto list = [](const std::vector<std::int32_t>& begins) {
    constexpr std::size_t kMost = 16;
    return begins.size() > kMost ? fmt::format("[{} numbers]", begins.size())
                                 : fmt::format("[{}]", fmt::join(begins, ","));
  };
  add(spec.query_stddev != 1, fmt::format("query-stddev={}", spec.query_stddev));
  add(spec.dominant_key, "dominant-key");
  add(spec.packed, "packed");
  add(!spec.cu_seqlens_q.empty(), "cu-seqlens-q=" + list(spec.cu_seqlens_q));
  add(!spec.cu_seqlens_kv.empty(), "cu-seqlens-kv=" + list(spec.cu_seqlens_kv));
  add(spec.operand_queries.has_value(),
      fmt::format("operand-queries={}", spec.operand_queries.value_or(0)));
  add(spec.operand_keys.has_value(), fmt::format("operand-keys={}", spec.operand_keys.value_or(0)));
  add(spec.paged(), fmt::format("page-size={}", spec.page_size));
  add(spec.shared_pages != 0, fmt::format("shared-pages={}", spec.shared_pages));
  add(!spec.tail_mask.empty(), fmt::format("tail-mask={}", spec.tail_mask));
  add(!spec.score.empty(), fmt::format("score={{{}}}", spec.score));
  add(!spec.keep.empty(), fmt::format("keep={{{}}}", spec.keep));
  for (const OperandSpec& operand : spec.operands) add(true, text_of(operand));
  add(!spec.blocks.empty(), fmt::format("blocks={}", spec.blocks));
  add(!spec.key_indices.empty(), fmt::format("key-indices={}", spec.key_indices));
  add(spec.use_seqlens_q, "seqlens-q");
  add(spec.use_seqlens_kv, "seqlens-kv");
  add(spec.backward, "backward");
  add(spec.want_dlse, "dlse");
  add(spec.want_dsink, "dsink");
  add(!spec.grad.empty(), fmt::format("grad={}", fmt::join(spec.grad, ",")));
  add(spec.want_dbias,
      fmt::format("dbias:{}", tensor::dtype_name(spec.dbias_dtype.value_or(spec.score_dtype()))));
  add(spec.deterministic, "deterministic");
  add(spec.memory.layout == Layout::kBshd, "bshd");
  add(spec.memory.base_offset != 0, fmt::format("offset={}", spec.memory.base_offset));
  add(spec.memory.row_padding != 0, fmt::format("padding={}", spec.memory.row_padding));
  add(spec.memory.v_differs, "v-differs");
  add(spec.memory.expand_broadcast, "expanded");
  add(spec.memory.expand_dout, "expanded-dout");
  add(!spec.want_lse, "no-lse");
  add(spec.want_row_max, "row-max");
  add(spec.want_max_logits, "max-logits");
  add(spec.poison_dropped_keys, "poisoned");
  add(spec.seed != 1, fmt::format("seed={}", spec.seed));
  return text;
}

}  // namespace attnjit::instance
