#include "launch/feature_values.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "codegen/expression_code.hpp"

namespace attnjit::launch {
namespace {

kernel::Grouped<kernel::OperandParams> operand_params(const problem::Operand& operand,
                                                      const Tensor& tensor,
                                                      const problem::Problem& problem) {
  return {{tensor.data, operand.batch_stride, operand.head_stride, operand.query_stride,
           operand.key_stride, problem.num_heads_q / operand.num_heads,
           problem.run_length(operand.num_batches, operand.cycle)},
          batch_cycle(operand.cycle)};
}

// Those of a tensor that no sequences share have no begins.
kernel::PackedRows packed_rows(const std::int32_t* begins, const problem::Problem& p,
                               std::int32_t rows) {
  return {.begins = begins, .num_sequences = begins == nullptr ? 0 : p.batch, .num_rows = rows};
}

// The polynomial is of scores that are yet to be multiplied by `scale`.
kernel::SoftcapParams softcap_params(float cap, float scale) {
  // tanh(x) / x in powers of x^2, for |x| up to 1: the polynomial of least relative error, 2^-20.7,
  // by Remez's algorithm in double precision.
  constexpr double kNear[] = {0.9999994110,  -0.3332904333, 0.1328143338,
                              -0.0516056752, 0.0167431140,  -0.0030670603};
  constexpr double kMostFloat = std::numeric_limits<float>::max();
  kernel::SoftcapParams params{.cap = cap,
                               .ratio = static_cast<float>(std::min(1.0 / cap, kMostFloat))};
  const double ratio = static_cast<double>(scale) / cap;
  // The powers of other ratios leave the range of fp32: then no score takes the polynomial.
  if (std::fabs(ratio) < 0x1p-11 || std::fabs(ratio) > 0x1p11) return params;
  params.most = static_cast<float>(1.0 / std::fabs(ratio));
  // By products, for this is part of every call.
  const double inverse_square = 1.0 / (ratio * ratio);
  double power = 1.0;  // ratio^(2 i - 10)
  for (int i = 4; i >= 0; --i) {
    power *= inverse_square;
    params.near[i] = static_cast<float>(kNear[i] / kNear[5] * power);
  }
  params.lead = static_cast<float>(kNear[5] / power);
  return params;
}

// 0: none. A score expression that is a softcap has its own where the call has no number.
float cap_of(const problem::Problem& p) {
  if (p.softcap > 0.0f || !p.score) return p.softcap;
  return codegen::cap_of(p.score->expression).value_or(0.0f);
}

// A moving diagonal moves both sides of the band. Sides past every key are one: the sum of one and
// two lengths fits 32 bits.
kernel::BandParams band_params(const problem::Problem& p) {
  const auto side = [](std::int64_t width) {
    return static_cast<kernel::int32>(std::clamp(width, -problem::kMaxSeqlen, problem::kMaxSeqlen));
  };
  const std::int64_t offset = p.diagonal_offset;
  return {side(p.left - offset), side(p.right + offset), p.bottom_right};
}

kernel::PackedSequencesParams packed_sequences(const problem::Problem& p, const ForwardArgs& args) {
  return {.q = packed_rows(args.cu_seqlens_q, p, p.seqlen_q),
          .kv = packed_rows(args.cu_seqlens_kv, p, p.seqlen_kv),
          .used_q = args.seqlens_q,
          .used_kv = args.seqlens_kv,
          .operand_queries = p.operand_queries,
          .operand_keys = p.operand_keys,
          .work = {}};
}

// The memory of an operand of an expression; of those that a kernel makes it is told later, by
// set_block_lists() and set_key_selection().
const void* operand_data(std::int32_t argument, const ForwardArgs& args) {
  using problem::ExpressionOperand;
  switch (argument) {
    case ExpressionOperand::kSelectedKeys:  // in place; else the copies have numbers of their own
      return args.key_indices->data;
    case ExpressionOperand::kListedBlocks:
    case ExpressionOperand::kFullBlocks:
    case ExpressionOperand::kKeyNumbers:
      return nullptr;
    case ExpressionOperand::kMask:
      return args.mask->data;
    case ExpressionOperand::kBias:
      return args.bias->data;
    case ExpressionOperand::kSlopes:
      return args.alibi_slopes->data;
    default:
      return args.operands[static_cast<std::size_t>(argument)].tensor.data;
  }
}

// An operand without elements is read where there are no keys, and nothing comes of it: it becomes
// one element of q.
kernel::ExpressionParams<kernel::kMaxExpressionOperands> expression_params(
    const expr::Ref& expression, const problem::ExpressionOperands& operands,
    const problem::Problem& p, const ForwardArgs& args) {
  kernel::ExpressionParams<kernel::kMaxExpressionOperands> params{.bottom_right = p.bottom_right,
                                                                  .offset = p.diagonal_offset,
                                                                  .row_offset = p.row_offset,
                                                                  .key_offset = p.key_offset,
                                                                  .operands = {}};
  for (std::size_t n = 0; n < expression->dtypes.size(); ++n) {
    const problem::ExpressionOperand& from = operands[n];
    kernel::ExpressionOperand& to = params.operands[n];
    const std::int64_t element_bytes = element_size(from.dtype);
    const auto axes = std::span(from.sizes).first(static_cast<std::size_t>(from.rank));
    const bool is_empty = std::ranges::find(axes, 0) != axes.end();
    for (std::size_t axis = 0; axis < expr::kMaxRank; ++axis) {
      to.sizes[axis] = is_empty ? 1 : static_cast<kernel::int32>(from.sizes[axis]);
      to.strides[axis] = is_empty ? 0 : from.strides[axis] * element_bytes;
    }
    to.data = is_empty ? args.q.data : operand_data(from.argument, args);
    to.ranges = nullptr;
    to.lines = nullptr;
    to.length = 0;
  }
  return params;
}

}  // namespace

void set_feature_values(const problem::Problem& problem, const ForwardArgs& args,
                        codegen::Pass pass, codegen::FeatureValues& values) {
  using problem::Extent;
  if (const float cap = cap_of(problem); cap > 0.0f) {
    const bool scaled = pass == codegen::Pass::kBackward;
    values.softcap = softcap_params(cap, scaled ? 1.0f : problem.scale);
  }
  if (problem.score) {
    values.score = expression_params(problem.score, problem.score_operands, problem, args);
  }
  if (problem.keep) {
    values.keep = expression_params(problem.keep, problem.keep_operands, problem, args);
  }
  if (problem.packed) values.sequences = packed_sequences(problem, args);
  values.seqlens = {args.seqlens_q, problem.has_seqlens_kv ? args.seqlens_kv : nullptr};
  values.band = band_params(problem);
  if (problem.bias.extent != Extent::kAbsent) {
    values.bias = operand_params(problem.bias, *args.bias, problem);
  }
  if (problem.alibi.exists) {
    values.alibi = {static_cast<const float*>(args.alibi_slopes->data), problem.alibi.batch_stride,
                    problem.alibi.head_stride, problem.diagonal_offset, problem.bottom_right};
  }
  if (const problem::KeySelection& s = problem.selection; s.in_place) {
    values.selected = {args.key_indices->data, s.batch_stride,  s.head_stride,
                       s.key_stride,           args.seqlens_kv, s.num_keys};
  }
  if (problem.paged()) values.pages = {args.block_table, problem.table_stride};
  if (problem.tail_mask.exists) {
    values.tail_mask = {static_cast<const kernel::uint8*>(args.tail_mask->data),
                        problem.tail_mask.batch_stride, problem.tail_mask.query_stride,
                        problem.tail_mask.key_stride};
  }
  if (problem.sink.exists) values.sink = {args.sink->data, problem.sink.head_stride};
  if (problem.mask.extent == Extent::kPerQuery) {
    values.row_mask = operand_params(problem.mask, *args.mask, problem);
  }
  if (problem.mask.packs_keys || problem.mask_has_few_rows()) {
    const problem::Operand& mask = problem.mask;
    values.byte_mask = {{.mask = static_cast<const kernel::uint8*>(args.mask->data),
                         .batch_stride = mask.batch_stride,
                         .head_stride = mask.head_stride,
                         .key_stride = mask.key_stride,
                         .heads_per_plane = problem.num_heads_q / mask.num_heads,
                         .batches_per_plane = problem.run_length(mask.num_batches, mask.cycle)},
                        batch_cycle(mask.cycle)};
  }
}

}  // namespace attnjit::launch
