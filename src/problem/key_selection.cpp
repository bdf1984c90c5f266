#include "problem/key_selection.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "expr/selected.hpp"
#include "problem/checks.hpp"

namespace attnjit::problem {
namespace {

using namespace checks;

void refuse_others(const ForwardArgs& args, const Problem& p) {
  const char* const other = p.packed           ? "packed sequences"
                            : p.paged()        ? "a block table"
                            : p.blocks.exist() ? "blocks"
                            : p.mask_prepared  ? "prepared_mask"
                            : args.tail_mask   ? "tail_mask"
                                               : nullptr;
  if (other != nullptr) reject("key_indices: given together with {}; leave one of them out", other);
}

KeySelection checked_indices(const Tensor& indices, const Problem& p) {
  if (indices.dtype != DType::kInt32 && indices.dtype != DType::kInt64) {
    reject("key_indices: dtype is {}; expected int32 or int64", name(indices.dtype));
  }
  const auto& [batches, heads, one, width] = indices.shape;
  expect_axis("key_indices", "batch", batches, p.batch, "batch of q");
  expect_axis("key_indices", "head", heads, p.num_heads_kv, "kv heads");
  expect_size("key_indices", indices, 2, 1, "all rows see the same keys");
  if (width < 0 || width > kMaxSeqlen) {
    reject("key_indices: last axis is {}; expected 0 to {} keys", width, kMaxSeqlen);
  }
  check_memory("key_indices", indices);
  const auto stride = [&](int axis) {
    return indices.shape[axis] == 1 ? 0 : indices.strides[axis];
  };
  return {.exists = true,
          .dtype = indices.dtype,
          .batch_stride = stride(0),
          .head_stride = stride(1),
          .key_stride = stride(3),
          .width = static_cast<std::int32_t>(width)};
}

void keep_given(const Problem& p, KeySelection& s) {
  s.num_keys = p.seqlen_kv;
  s.k = p.k;
  s.v = p.v;
  s.has_seqlens_kv = p.has_seqlens_kv;
  s.mask = p.mask;
  s.bias = p.bias;
  s.alibi = p.alibi;
  s.bounded_left = p.bounded_left;
  s.bounded_right = p.bounded_right;
  s.left = p.left;
  s.right = p.right;
  s.softcap = p.softcap;
  s.score = p.score;
  s.keep = p.keep;
}

// A read by kv head is the same for all rows of a tile that packs query heads, so that one by query
// head is left to operands that have these.
expr::KeyedOperand keyed(const Operand& o, const Problem& p) {
  const bool per_query_head = o.num_heads == p.num_heads_q && o.num_heads != p.num_heads_kv;
  return {.head = per_query_head ? expr::Index::kHeadQ : expr::Index::kHeadKv,
          .per_row = o.query_stride != 0,
          .per_key = o.key_stride != 0};
}

expr::KeyTerms terms_of(const Problem& p) {
  expr::KeyTerms terms{
      .bottom_right = p.bottom_right, .has_slopes = p.alibi.exists, .softcap = p.softcap};
  if (p.score) terms.score = p.score->expression.numbered();
  if (p.keep) terms.keep = p.keep->expression.numbered();
  if (p.bounded_left) terms.left = p.left;
  if (p.bounded_right) terms.right = p.right;
  if (p.mask.extent != Extent::kAbsent) terms.mask = keyed(p.mask, p);
  if (p.bias.extent != Extent::kAbsent) terms.bias = keyed(p.bias, p);
  return terms;
}

ExpressionOperand operand_of(const Operand& o, std::int32_t argument) {
  return {.argument = argument,
          .dtype = o.dtype,
          .rank = 4,
          .sizes = {o.num_batches, o.num_heads, o.queries, o.keys},
          .strides = {o.batch_stride, o.head_stride, o.query_stride, o.key_stride}};
}

// An axis of size 1 has stride 0.
ExpressionOperand made_operand(std::int32_t argument, std::int32_t batch, std::int32_t heads,
                               std::int32_t width) {
  ExpressionOperand o{.argument = argument,
                      .dtype = DType::kInt32,
                      .rank = 3,
                      .sizes = {batch, heads, width},
                      .strides = {std::int64_t{heads} * width, width, 1}};
  for (std::size_t axis = 0; axis < 3; ++axis) {
    if (o.sizes[axis] == 1) o.strides[axis] = 0;
  }
  return o;
}

// The indices themselves, of 64 bits their lower halves: a kernel that reads keys in place drops
// what names no key.
ExpressionOperand given_indices(const KeySelection& s, const Problem& p) {
  const std::int64_t words = s.dtype == DType::kInt64 ? 2 : 1;
  return {.argument = ExpressionOperand::kSelectedKeys,
          .dtype = DType::kInt32,
          .rank = 3,
          .sizes = {p.batch, p.num_heads_kv, p.seqlen_kv},
          .strides = {s.batch_stride * words, s.head_stride * words, s.key_stride * words}};
}

// `given` are the operands of the caller's expression.
ExpressionOperand operand_named(const std::string& name, const Problem& p,
                                const ExpressionOperands& given) {
  if (name == expr::kSelectedKeys) {
    if (p.selection.in_place) return given_indices(p.selection, p);
    return made_operand(ExpressionOperand::kSelectedKeys, p.batch, p.num_heads_kv, p.seqlen_kv);
  }
  if (name == expr::kKeyNumbers) {
    return {.argument = ExpressionOperand::kKeyNumbers,
            .dtype = DType::kInt32,
            .rank = 1,
            .sizes = {p.batch},
            .strides = {p.batch == 1 ? 0 : 1}};
  }
  const KeySelection& s = p.selection;
  if (name == expr::kMaskOfKeys) return operand_of(s.mask, ExpressionOperand::kMask);
  if (name == expr::kBiasOfKeys) return operand_of(s.bias, ExpressionOperand::kBias);
  if (name == expr::kSlopesOfHeads) {
    return {.argument = ExpressionOperand::kSlopes,
            .dtype = DType::kFloat32,
            .rank = 2,
            .sizes = {s.alibi.batch_stride == 0 ? 1 : p.batch,
                      s.alibi.head_stride == 0 ? 1 : p.num_heads_q},
            .strides = {s.alibi.batch_stride, s.alibi.head_stride}};
  }
  return given[std::stoul(name)];
}

// The expression over selected keys in the place of the caller's.
void take(expr::Kind kind, const expr::Expr& e, const Problem& p, expr::Ref& expression,
          ExpressionOperands& operands) {
  ExpressionOperands found;
  std::vector<DType> dtypes;
  for (const expr::OperandDeclaration& operand : e.operands()) {
    const ExpressionOperand o = operand_named(operand.name, p, operands);
    found[dtypes.size()] = o;
    dtypes.push_back(o.dtype);
  }
  expression = expr::Ref::of(kind, e, std::move(dtypes));
  operands = found;
}

// Strides of the copies in the workspace, [batch, kv heads, selected keys, selected_row()].
RowStrides copied_strides(const Problem& p, std::int32_t head_dim) {
  const std::int64_t row = selected_row(head_dim), plane = row * p.seqlen_kv;
  return {p.batch == 1 ? 0 : plane * p.num_heads_kv, p.num_heads_kv == 1 ? 0 : plane,
          p.seqlen_kv == 1 ? 0 : row};
}

void refuse_order(const char* what, const Operand& o, const Problem& p) {
  if (o.num_batches == 1 || o.num_batches == p.batch) return;
  reject("{}: batch axis is {}; expected 1 or {} beside key_indices", what, o.num_batches, p.batch);
}

}  // namespace

void select_keys(const ForwardArgs& args, bool copies, Problem& p) {
  refuse_others(args, p);
  refuse_order("mask", p.mask, p);
  refuse_order("bias", p.bias, p);
  p.selection = checked_indices(*args.key_indices, p);
  keep_given(p, p.selection);
  expr::KeyTerms terms = terms_of(p);
  // No kernel that reads in place writes how many keys a batch element has.
  terms.all_name_keys = p.selection.in_place =
      !copies && std::int64_t{p.seqlen_q} * p.gqa_ratio() <= kMostRowsInPlace &&
      !expr::read_num_keys(terms);
  p.seqlen_kv = p.selection.width;
  if (!p.selection.in_place) {
    p.k = copied_strides(p, p.head_dim);
    p.v = copied_strides(p, p.head_dim_v);
  }
  p.has_seqlens_kv = p.bounded_left = p.bounded_right = false;
  p.left = p.right = 0;
  if (terms.bias || terms.has_slopes) p.softcap = 0.0f;
  p.mask = p.bias = {};
  p.alibi = {};
  if (const auto keep = expr::keep_of_selected(terms)) {
    take(expr::Kind::kKeep, *keep, p, p.keep, p.keep_operands);
  }
  if (const auto score = expr::score_of_selected(terms)) {
    take(expr::Kind::kScore, *score, p, p.score, p.score_operands);
  }
}

Problem as_called(const Problem& problem) {
  Problem p = problem;
  const KeySelection& s = problem.selection;
  if (!s.exists) return p;
  p.seqlen_kv = s.num_keys;
  p.k = s.k;
  p.v = s.v;
  p.has_seqlens_kv = s.has_seqlens_kv;
  p.mask = s.mask;
  p.bias = s.bias;
  p.alibi = s.alibi;
  p.bounded_left = s.bounded_left;
  p.bounded_right = s.bounded_right;
  p.left = s.left;
  p.right = s.right;
  p.softcap = s.softcap;
  p.score = s.score;
  p.keep = s.keep;
  return p;
}

}  // namespace attnjit::problem
