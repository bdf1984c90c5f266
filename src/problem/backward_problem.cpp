#include "problem/backward_problem.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

#include "problem/operand_gradient_checks.hpp"
#include "problem/order_checks.hpp"

namespace attnjit::problem {
namespace {

using namespace checks;

// A tensor that lies as `like` does: same shape and dtype, strides of its own.
RowStrides check_like(const char* what, const Tensor& tensor, const Tensor& like,
                      const char* whose) {
  for (int axis = 0; axis < 4; ++axis) expect_size(what, tensor, axis, like.shape[axis], whose);
  expect_dtype(what, tensor, like.dtype);
  check_features(what, tensor);
  check_memory(what, tensor);
  return row_strides(tensor);
}

void check_tensors(const BackwardArgs& args, BackwardProblem& p) {
  const ForwardArgs& forward = args.forward;
  p.dout = check_like("dout", args.dout, forward.out, "as out");
  p.dq = check_like("dq", args.dq, forward.q, "as q");
  p.dk = check_like("dk", args.dk, forward.k, "as k");
  p.dv = check_like("dv", args.dv, forward.v, "as v");
  if (p.forward.selection.exists) {
    p.caller_dk = std::exchange(p.dk, p.forward.k);
    p.caller_dv = std::exchange(p.dv, p.forward.v);
  }
  check_no_overlap("dq", args.dq);
  check_no_overlap("dk", args.dk);
  check_no_overlap("dv", args.dv);
  p.aligned = p.forward.aligned && rows_aligned(args.dout, p.dout) && rows_aligned(args.dq, p.dq) &&
              rows_aligned(args.dk, row_strides(args.dk)) &&
              rows_aligned(args.dv, row_strides(args.dv));
}

// Whether the bias is the same all along an axis, so that its gradient may be reduced there.
bool is_broadcast(const Tensor& bias, int axis) {
  return bias.shape[axis] == 1 || bias.strides[axis] == 0;
}

void check_dbias_axis(const Tensor& dbias, const Tensor& bias, int axis, std::int64_t full) {
  static constexpr const char* kNames[] = {"batch", "head", "query", "key"};
  if (dbias.shape[axis] == full) return;
  const bool may_reduce = is_broadcast(bias, axis);
  if (may_reduce && dbias.shape[axis] == 1) return;
  if (may_reduce) {
    reject("dbias: {} axis is {}; expected 1 or {}", kNames[axis], dbias.shape[axis], full);
  }
  reject("dbias: {} axis is {}; expected {} (the bias differs along it)", kNames[axis],
         dbias.shape[axis], full);
}

void check_dbias(const BackwardArgs& args, BackwardProblem& p) {
  if (!args.dbias) return;
  if (!args.forward.bias) reject("dbias: the call has no bias; leave dbias out");
  if (p.forward.selection.exists) {
    reject(
        "dbias: a bias has no gradient beside key_indices; read it in the score expression as an "
        "operand, whose gradient is in operand_gradients");
  }
  const Tensor& dbias = *args.dbias;
  const Tensor& bias = *args.forward.bias;
  if (dbias.dtype != bias.dtype && dbias.dtype != DType::kFloat32) {
    reject("dbias: dtype is {}; expected {} (as bias) or fp32", name(dbias.dtype),
           name(bias.dtype));
  }
  const bool packed = p.forward.packed;
  // Packed sequences tell no size that an axis of size 1 might have.
  const auto full = [&](int axis, std::int64_t size) { return packed ? bias.shape[axis] : size; };
  const std::int64_t batches = p.forward.bias.packs_keys ? 1
                               : bias.shape[0] == 1      ? p.forward.batch
                                                         : bias.shape[0];
  check_dbias_axis(dbias, bias, 0, batches);
  check_dbias_axis(dbias, bias, 1, bias.shape[1] == 1 ? p.forward.num_heads_q : bias.shape[1]);
  check_dbias_axis(dbias, bias, 2, full(2, p.forward.seqlen_q));
  check_dbias_axis(dbias, bias, 3, full(3, p.forward.seqlen_kv));
  check_memory("dbias", dbias);
  check_no_overlap("dbias", dbias);
  if (empty_tensor(dbias)) return;  // nothing to write
  const auto stride = [&](int axis) { return dbias.shape[axis] == 1 ? 0 : dbias.strides[axis]; };
  BiasGradient& g = p.dbias;
  g.dtype = dbias.dtype;
  g.batch_stride = stride(0);
  g.head_stride = stride(1);
  g.query_stride = stride(2);
  g.key_stride = stride(3);
  g.batches = static_cast<std::int32_t>(dbias.shape[0]);
  if (g.batches > 1 && bias.shape[0] > 1) {
    g.cycle = checked_cycle("bias", bias.shape[0], args.forward.bias_order, p.forward);
  }
  g.heads = static_cast<std::int32_t>(dbias.shape[1]);
  g.queries = static_cast<std::int32_t>(dbias.shape[2]);
  g.keys = static_cast<std::int32_t>(dbias.shape[3]);
  const bool keeps_queries = packed ? g.queries > 1 : g.queries == p.forward.seqlen_q;
  // Rows of dS sum to dlse: a single key needs no score either.
  const bool keeps_keys = dbias.shape[3] > 1;
  g.extent = !keeps_keys ? Extent::kPerQuery : keeps_queries ? Extent::kPerPair : Extent::kPerKey;
  g.scalar = !keeps_keys && !keeps_queries;
  const auto all = static_cast<std::uint64_t>(g.batch_stride | g.head_stride | g.query_stride);
  g.vectorized =
      dbias.strides[3] == 1 && is_multiple(address(dbias.data) | all * element_size(g.dtype), 16);
}

void check_dsink(const BackwardArgs& args, BackwardProblem& p) {
  if (!args.dsink) return;
  if (!p.forward.sink.exists) reject("dsink: the call has no sink; leave dsink out");
  const Tensor& dsink = *args.dsink;
  if (dsink.dtype != DType::kFloat32) {
    reject("dsink: dtype is {}; expected fp32", name(dsink.dtype));
  }
  for (int axis = 0; axis < 4; ++axis) {
    expect_size("dsink", dsink, axis, args.forward.sink->shape[axis], "as sink");
  }
  check_memory("dsink", dsink);
  check_no_overlap("dsink", dsink);
  p.has_dsink = true;
  p.dsink_stride = dsink.shape[1] == 1 ? 0 : dsink.strides[1];
}

GradientOperands gradient_operands(const BackwardProblem& problem) {
  expr::OperandSet of_score = 0;
  bool others = false;
  for (const OperandGradient& gradient : problem.gradients_of_operands()) {
    others |= gradient.number < 0;
    if (gradient.number >= 0) of_score |= expr::OperandSet{1} << gradient.number;
  }
  return {of_score, others};
}

}  // namespace

GradientOperands::GradientOperands(expr::OperandSet of_score, bool others)
    : bits_(of_score | (others ? kOthers : 0)) {
  std::string text;
  for (int n = 0; n < expr::kMaxOperands; ++n) {
    if ((of_score >> n & 1) != 0) text += fmt::format("{}{}", text.empty() ? "" : ",", n);
  }
  if (others) text += text.empty() ? "other" : ",other";
  std::ranges::copy(text.substr(0, text_.size() - 1), text_.begin());
}

GradientOperands GradientOperands::parse(std::string_view text) {
  expr::OperandSet of_score = 0;
  bool others = false;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view word = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(word.size() + 1, rest.size()));
    int number = expr::kMaxOperands;
    std::from_chars(word.data(), word.data() + word.size(), number);
    if (number >= 0 && number < expr::kMaxOperands) of_score |= expr::OperandSet{1} << number;
    others |= word == "other";
  }
  const GradientOperands result(of_score, others);
  if (result.text() != text) {
    reject("gradient_operands: '{}'; expected numbers of operands such as 0,3", text);
  }
  return result;
}

BackwardProblem make_problem(const BackwardArgs& args) {
  BackwardProblem p;
  p.forward = make_problem(args.forward, true);
  p.forward.has_row_max = p.forward.has_max_logits = false;  // the forward's alone
  if (p.forward.paged()) reject("block_table: paged keys are forward only; give k and v unpaged");
  if (args.forward.tail_mask) reject("tail_mask: it is forward only; give a mask");
  if (args.forward.lse == nullptr && !empty_tensor(args.forward.q)) {
    reject("lse: null; expected the lse that the forward wrote, [batch, heads, seqlen_q] fp32");
  }
  if (p.forward.mask_prepared && p.forward.mask.extent == Extent::kPerPair &&
      !args.forward.prepared_mask->for_backward) {
    reject("prepared_mask: it lacks the bits that a backward reads; prepare it with for_backward");
  }
  check_tensors(args, p);
  check_dbias(args, p);
  check_dsink(args, p);
  check_aligned_pointer("dlse", args.dlse);
  p.has_dlse = args.dlse != nullptr;
  p.deterministic = args.deterministic;
  if (!args.operand_gradients.empty()) check_operand_gradients(args, p);
  return p;
}

bool BackwardProblem::dbias_reduces_few() const {
  // In 16 bits each they take at most twice the memory of sums in fp32.
  constexpr std::int64_t kMost = 4;
  const std::int64_t planes = std::int64_t{dbias.batches} * dbias.heads;
  return dbias.extent == Extent::kPerPair && !forward.packed && dbias_reduces_planes() &&
         std::int64_t{forward.batch} * forward.num_heads_q <= kMost * planes;
}

BackwardFamily family(const BackwardProblem& problem) {
  BackwardFamily f;
  f.scores = family(problem.forward);
  f.scores.aligned = problem.aligned;
  f.scores.mask_few_rows = false;
  f.dbias = problem.dbias.extent;
  f.dsink = problem.has_dsink;
  if (problem.num_operand_gradients > 0) f.gradient_operands = gradient_operands(problem);
  f.deterministic = problem.deterministic;
  if (f.dbias == Extent::kAbsent) return f;
  f.dbias_dtype = problem.dbias.dtype;
  f.dbias_vectorized = problem.dbias.vectorized;
  f.dbias_reduces_planes = problem.dbias_reduces_planes();
  f.dbias_reduces_few = problem.dbias_reduces_few();
  f.dbias_groups_batch = problem.forward.groups_batch(problem.dbias.batches);
  f.dbias_scalar = problem.dbias.scalar;
  return f;
}

}  // namespace attnjit::problem
