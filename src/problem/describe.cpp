// Problems and families as text.
#include <fmt/format.h>

#include "problem/backward_problem.hpp"

namespace attnjit::problem {

namespace {

// The pattern of a tensor with so many planes over batch and heads of `problem`.
std::string pattern_of(const Problem& problem, std::int32_t batches, const BatchCycle& cycle,
                       std::int32_t heads, bool per_query, bool per_key, bool packs_keys) {
  const bool groups = problem.groups_batch(batches), repeats = groups && cycle.runs() > 1;
  return fmt::format("{}{}{}{}{}",
                     batches == 1 ? '1'
                     : repeats    ? 'p'
                     : groups     ? 's'
                                  : 'b',
                     heads == 1                     ? '1'
                     : heads == problem.num_heads_q ? 'h'
                                                    : 'g',
                     per_query ? 'q' : '1',
                     packs_keys ? 't'
                     : per_key  ? 'k'
                                : '1',
                     groups ? fmt::format("/{}", batches) : "") +
         (repeats ? fmt::format("x{}", problem.run_length(batches, cycle)) : "") +
         (repeats && cycle.planes < batches ? fmt::format("x{}", cycle.planes) : "");
}

}  // namespace

std::string pattern(const Problem& problem, const Operand& operand) {
  if (operand.extent == Extent::kAbsent) return "none";
  return pattern_of(problem, operand.num_batches, operand.cycle, operand.num_heads,
                    operand.query_stride != 0, operand.key_stride != 0, operand.packs_keys);
}

const char* alibi_pattern(const Problem& problem) {
  if (!problem.alibi.exists) return "none";
  return problem.alibi.batch_stride != 0 ? "bh" : "h";
}

const char* tail_mask_pattern(const Problem& problem) {
  if (!problem.tail_mask.exists) return "none";
  return problem.tail_mask.batch_stride != 0 ? "b" : "1";
}

std::string blocks_pattern(const Problem& problem) {
  const Blocks& blocks = problem.blocks;
  if (!blocks.exist()) return "none";
  return fmt::format("{}x{}/{}{}", blocks.block_q, blocks.block_kv, blocks.batches == 1 ? '1' : 'b',
                     blocks.heads == 1                     ? '1'
                     : blocks.heads == problem.num_heads_q ? 'h'
                                                           : 'g');
}

std::string key_indices_pattern(const Problem& problem) {
  const KeySelection& s = problem.selection;
  if (!s.exists) return "none";
  return fmt::format("{}/{}{}", s.width, s.batch_stride == 0 ? '1' : 'b',
                     s.head_stride == 0 ? '1' : 'g');
}

const char* name(DType dtype) { return base::word(dtype); }

std::string describe(const Problem& problem) {
  const Problem p = as_called(problem);
  std::string text =
      fmt::format("{} b{} h{}/{} lq{} lk{} d{}", name(p.dtype), p.batch, p.num_heads_q,
                  p.num_heads_kv, p.seqlen_q, p.seqlen_kv, p.head_dim);
  if (p.head_dim_v != p.head_dim) text += fmt::format(" dv{}", p.head_dim_v);
  if (p.bounded_left || p.bounded_right) {
    auto side = [](bool bounded, int width) { return bounded ? fmt::to_string(width) : "open"; };
    text +=
        fmt::format(" window={},{}", side(p.bounded_left, p.left), side(p.bounded_right, p.right));
  }
  if (p.alibi.exists) text += fmt::format(" alibi={}", alibi_pattern(p));
  if (p.has_diagonal()) {
    text += fmt::format(" diagonal={}", p.bottom_right ? "bottom_right" : "top_left");
  }
  if (p.diagonal_offset != 0) text += fmt::format(" diagonal_offset={}", p.diagonal_offset);
  if (p.row_offset != 0) text += fmt::format(" row_offset={}", p.row_offset);
  if (p.key_offset != 0) text += fmt::format(" key_offset={}", p.key_offset);
  if (p.packed) text += " packed";
  if (p.paged()) text += fmt::format(" page_size={} pages={}", p.page_size, p.num_pages);
  if (p.tail_mask.exists) text += fmt::format(" tail_mask={}", tail_mask_pattern(p));
  if (p.has_seqlens_q) text += " seqlens_q";
  if (p.has_seqlens_kv) text += " seqlens_kv";
  // The lengths of packed sequences, which an operand's axes do not follow, are not known.
  const auto sizes = [&p](const Operand& o) {
    return p.packed ? fmt::format("[{},{}]", o.queries, o.keys) : "";
  };
  if (p.mask.extent != Extent::kAbsent) {
    text += fmt::format(" mask={}{}{}", pattern(p, p.mask), sizes(p.mask),
                        p.mask_prepared ? ",prepared" : "");
  }
  if (p.bias.extent != Extent::kAbsent) {
    text += fmt::format(" bias={}{}({})", pattern(p, p.bias), sizes(p.bias), name(p.bias.dtype));
  }
  if (p.blocks.exist()) {
    text += fmt::format(" blocks={}{}", blocks_pattern(p), p.blocks.full.exists ? ",full" : "");
  }
  if (p.selection.exists) {
    text += fmt::format(" key_indices={}({})", key_indices_pattern(p), name(p.selection.dtype));
  }
  for (const expr::Ref& e : {p.score, p.blocks.exist() ? p.caller_keep : p.keep}) {
    if (e) text += fmt::format(" {{{}}}", e.text());
  }
  if (p.sink.exists) text += fmt::format(" sink({})", name(p.sink.dtype));
  for (const Scalar& s : kScalars) {
    if (p.*s.value != s.usual(p)) text += fmt::format(" {}={}", s.name, p.*s.value);
  }
  if (p.has_lse) text += " lse";
  if (p.has_row_max) text += " row_max";
  if (p.has_max_logits) text += " max_logits";
  if (!p.aligned) text += " unaligned";
  return text;
}

std::string describe(const Family& f) {
  std::string text = fmt::format("{} d{}", name(f.dtype), f.head_dim);
  if (f.head_dim_v != f.head_dim) text += fmt::format(" dv{}", f.head_dim_v);
  text += fmt::format(" gqa{}", f.gqa_ratio);
  for (const auto& [word, flag] : kFlags) {
    if (f.*flag) text += fmt::format(" {}", word);
  }
  if (f.mask != Extent::kAbsent) {
    text += fmt::format(" mask={}{}{}{}", base::word(f.mask),
                        f.mask_prepared     ? ",prepared"
                        : f.mask_vectorized ? ""
                                            : ",scalar",
                        f.mask_groups_batch ? ",grouped"
                        : f.mask_packs_keys ? ",packed"
                                            : "",
                        f.mask_few_rows ? ",few_rows" : "");
  }
  if (f.bias != Extent::kAbsent) {
    text += fmt::format(" bias={},{}{}{}", base::word(f.bias), name(f.bias_dtype),
                        f.bias_vectorized ? "" : ",scalar",
                        f.bias_groups_batch ? ",grouped"
                        : f.bias_packs_keys ? ",packed"
                                            : "");
  }
  if (f.blocks) text += " blocks";
  if (f.key_indices) text += fmt::format(" key_indices({})", f.key_indices.text());
  for (const expr::Ref& e : {f.score, f.keep}) {
    if (e) text += fmt::format(" {{{}}}", e.text());
  }
  if (f.sink) text += fmt::format(" sink={}", name(f.sink_dtype));
  if (f.page_size > 0) text += fmt::format(" page_size={}", f.page_size);
  if (!f.aligned) text += " unaligned";
  if (!f.positive_scale) text += " scale<=0";
  return text;
}

std::string dbias_pattern(const BackwardProblem& p) {
  if (p.dbias.extent == Extent::kAbsent) return "none";
  return pattern_of(p.forward, p.dbias.batches, p.dbias.cycle, p.dbias.heads,
                    p.dbias.query_stride != 0, p.dbias.key_stride != 0, p.forward.bias.packs_keys);
}

std::string describe(const BackwardProblem& p) {
  std::string text = "backward " + describe(p.forward);
  if (p.dbias.extent != Extent::kAbsent) {
    text += fmt::format(" dbias={}({})", dbias_pattern(p), name(p.dbias.dtype));
  }
  if (p.has_dsink) text += " dsink";
  for (const OperandGradient& gradient : p.gradients_of_operands()) {
    text += fmt::format(" grad(x{})", gradient.tensor.argument);
  }
  if (p.has_dlse) text += " dlse";
  if (p.deterministic) text += " deterministic";
  if (p.forward.aligned && !p.aligned) text += " unaligned";
  return text;
}

std::string describe(const BackwardFamily& f) {
  std::string text = describe(f.scores);
  if (f.dbias != Extent::kAbsent) {
    const char* const kept = f.dbias == Extent::kPerPair  ? "qk"
                             : f.dbias == Extent::kPerKey ? "1k"
                             : f.dbias_scalar             ? "11"
                                                          : "q1";
    text += fmt::format(" dbias={},{}{}{}{}", kept, name(f.dbias_dtype),
                        f.dbias_groups_batch     ? ",grouped"
                        : f.dbias_reduces_planes ? ",reduced"
                                                 : "",
                        f.dbias_reduces_few ? ",few" : "", f.dbias_vectorized ? "" : ",scalar");
  }
  if (f.dsink) text += " dsink";
  if (f.gradient_operands.any()) text += fmt::format(" grad={}", f.gradient_operands.text());
  if (f.deterministic) text += " deterministic";
  return text;
}

}  // namespace attnjit::problem
