#include "problem/manifest_line.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "base/json.hpp"
#include "expr/print.hpp"
#include "problem/checks.hpp"

namespace attnjit::problem {
namespace {

using base::Json;

// Rows of one position lie beside each other.
bool heads_inside_rows(const Problem& p) {
  return p.num_heads_q > 1 && p.seqlen_q > 1 &&
         checks::magnitude(p.q.head) < checks::magnitude(p.q.row);
}

// Operands are called by their places in the call.
std::string operand_name(const ExpressionOperand& o) { return fmt::format("x{}", o.argument); }

void add_expression(const char* member, const expr::Ref& e, const ExpressionOperands& operands,
                    std::map<std::int32_t, std::string>& texts, Json& line) {
  if (!e) return;
  std::vector<std::string> names;
  for (std::size_t n = 0; n < e->dtypes.size(); ++n) {
    const ExpressionOperand& o = operands[n];
    names.push_back(operand_name(o));
    texts[o.argument] = fmt::format("{}={}:{}", names.back(), name(o.dtype),
                                    fmt::join(o.sizes.begin(), o.sizes.begin() + o.rank, ","));
  }
  line[member] = expr::print(e->expression, names);
}
// Those of the caller's expression, in its order: what kernels make is no operand of a call.
ExpressionOperands given_operands(const ExpressionOperands& all) {
  ExpressionOperands given;
  std::ranges::copy_if(all, given.begin(),
                       [](const ExpressionOperand& o) { return o.argument >= 0; });
  return given;
}
void add_expressions(const Problem& p, Json& line) {
  std::map<std::int32_t, std::string> texts;
  add_expression("score", p.score, given_operands(p.score_operands), texts, line);
  const expr::Ref& keep = p.blocks.exist() ? p.caller_keep : p.keep;
  add_expression("keep", keep, given_operands(p.keep_operands), texts, line);
  for (const auto& [place, text] : texts) line["operands"].push_back(text);
}

Json members(const Problem& problem) {
  const Problem p = as_called(problem);
  Json line = {{"name", describe(p)},
               {"dtype", name(p.dtype)},
               {"batch", p.batch},
               {"heads", {p.num_heads_q, p.num_heads_kv}},
               {"head_dim", p.head_dim}};
  if (p.head_dim_v != p.head_dim) line["head_dim_v"] = p.head_dim_v;
  line["seqlens"] = {p.seqlen_q, p.seqlen_kv};
  if (p.bounded_left || p.bounded_right) {
    line["window"] = {p.bounded_left ? p.left : -1, p.bounded_right ? p.right : -1};
  }
  if (p.alibi.exists) line["alibi"] = alibi_pattern(p);
  if (p.has_diagonal()) line["diagonal"] = p.bottom_right ? "bottom_right" : "top_left";
  if (p.diagonal_offset != 0) line["diagonal_offset"] = p.diagonal_offset;
  if (p.row_offset != 0) line["row_offset"] = p.row_offset;
  if (p.key_offset != 0) line["key_offset"] = p.key_offset;
  if (p.mask.extent != Extent::kAbsent) line["mask"] = pattern(p, p.mask);
  if (p.mask_prepared) line["prepared_mask"] = true;
  if (p.bias.extent != Extent::kAbsent) {
    line["bias"] = pattern(p, p.bias);
    line["bias_dtype"] = name(p.bias.dtype);
  }
  if (p.sink.exists) {
    line["sink"] = true;
    line["sink_dtype"] = name(p.sink.dtype);
  }
  for (const Scalar& s : kScalars) {
    if (p.*s.value != s.usual(p)) line[s.name] = p.*s.value;
  }
  if (heads_inside_rows(p)) line["layout"] = "bshd";
  if (p.has_seqlens_q || p.has_seqlens_kv) line["use_seqlens"] = true;
  if (p.packed) line["packed"] = true;
  if (p.has_row_max) line["row_max"] = true;
  if (p.has_max_logits) line["max_logits"] = true;
  if (p.paged()) line["page_size"] = p.page_size;
  if (p.blocks.exist()) {
    line["blocks"] =
        fmt::format("random:0.25{}/{}", p.blocks.full.exists ? "+0.1" : "", blocks_pattern(p));
  }
  if (p.selection.exists) {
    const char* const dtype = p.selection.dtype == DType::kInt64 ? "/int64" : "";
    line["key_indices"] = fmt::format("topk:{}{}", key_indices_pattern(p), dtype);
  }
  if (p.tail_mask.exists) line["tail_mask"] = tail_mask_pattern(p);
  add_expressions(p, line);
  return line;
}

}  // namespace

std::string manifest_line(const Problem& problem) { return members(problem).dump(); }

std::string manifest_line(const BackwardProblem& problem) {
  Json line = members(problem.forward);
  line["name"] = describe(problem);
  line["pass"] = "backward";
  if (problem.dbias.extent != Extent::kAbsent) {
    line["dbias"] = true;
    line["dbias_dtype"] = name(problem.dbias.dtype);
  }
  if (problem.has_dsink) line["dsink"] = true;
  for (const OperandGradient& gradient : problem.gradients_of_operands()) {
    line["grad"].push_back(operand_name(gradient.tensor));
  }
  if (problem.has_dlse) line["dlse"] = true;
  if (problem.deterministic) line["deterministic"] = true;
  return line.dump();
}

}  // namespace attnjit::problem
