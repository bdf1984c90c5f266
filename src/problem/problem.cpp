#include "problem/problem.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "attnjit/error.hpp"
#include "problem/block_checks.hpp"
#include "problem/canonical_operand.hpp"
#include "problem/checks.hpp"
#include "problem/expression_checks.hpp"
#include "problem/key_selection.hpp"
#include "problem/order_checks.hpp"
#include "problem/page_checks.hpp"
#include "problem/score_checks.hpp"

namespace attnjit::problem {
namespace {

using namespace checks;

std::int32_t checked_sequences(const ForwardArgs& args) {
  if (args.num_sequences < 1 || args.num_sequences > kMaxSequences) {
    reject("num_sequences: {}; expected 1 to {}", args.num_sequences, kMaxSequences);
  }
  expect_size("q", args.q, 0, 1, "packed sequences lie along the sequence axis");
  return static_cast<std::int32_t>(args.num_sequences);
}

// Whether sequences are packed: those of q, and of k and v unless these are pages.
bool checked_packing(const ForwardArgs& args) {
  const bool q = args.cu_seqlens_q != nullptr, kv = args.cu_seqlens_kv != nullptr;
  if (q != kv && args.block_table == nullptr) {
    reject("cu_seqlens_{}: null with cu_seqlens_{}; expected both or none", q ? "kv" : "q",
           q ? "q" : "kv");
  }
  if (!q && args.num_sequences != 0) {
    reject("num_sequences: {} without cu_seqlens_q and cu_seqlens_kv; expected 0",
           args.num_sequences);
  }
  check_aligned_pointer("cu_seqlens_q", args.cu_seqlens_q);
  check_aligned_pointer("cu_seqlens_kv", args.cu_seqlens_kv);
  return q;
}

void check_shapes(const ForwardArgs& args, Problem& p) {
  const auto& [b, hq, lq, d] = args.q.shape;
  constexpr std::int64_t kMax = std::numeric_limits<std::int32_t>::max();
  p.batch = p.packed ? checked_sequences(args) : checked_size("q", 0, b, 0, kMax);
  p.num_heads_q = checked_size("q", 1, hq, 1, kMax);
  p.seqlen_q = checked_size("q", 2, lq, 0, kMaxSeqlen);
  p.head_dim = checked_size("q", 3, d, 1, 256);
  p.num_heads_kv = checked_size("k", 1, args.k.shape[1], 1, kMax);
  if (has_pages(args)) {
    check_pages(args, p);
  } else {
    p.seqlen_kv = checked_size("k", 2, args.k.shape[2], 0, kMaxSeqlen);
    expect_size("k", args.k, 0, b, "q's batch");
  }
  p.head_dim_v = checked_size("v", 3, args.v.shape[3], 1, 256);
  expect_size("k", args.k, 3, d, "q's feature axis");
  expect_size("v", args.v, 0, args.k.shape[0], p.paged() ? "k's pages" : "q's batch");
  expect_size("v", args.v, 1, p.num_heads_kv, "k's heads");
  expect_size("v", args.v, 2, p.key_rows(), "k's sequence");
  expect_size("out", args.out, 0, b, "q's batch");
  expect_size("out", args.out, 1, hq, "q's heads");
  expect_size("out", args.out, 2, lq, "q's sequence");
  expect_size("out", args.out, 3, p.head_dim_v, "v's feature axis");
  if (hq % p.num_heads_kv != 0) {
    reject("k: head axis is {}; expected a divisor of q's {} heads", p.num_heads_kv, hq);
  }
}

void check_tensors(const ForwardArgs& args, Problem& p) {
  if (args.q.dtype != DType::kFloat16 && args.q.dtype != DType::kBFloat16) {
    reject("q: dtype is {}; expected fp16 or bf16", name(args.q.dtype));
  }
  p.dtype = args.q.dtype;
  p.aligned = p.head_dim % 8 == 0 && p.head_dim_v % 8 == 0;
  const std::pair<const char*, const Tensor*> tensors[] = {
      {"q", &args.q}, {"k", &args.k}, {"v", &args.v}, {"out", &args.out}};
  RowStrides* const strides[] = {&p.q, &p.k, &p.v, &p.out};
  for (int i = 0; i < 4; ++i) {
    const auto& [what, tensor] = tensors[i];
    expect_dtype(what, *tensor, p.dtype);
    check_features(what, *tensor);
    check_memory(what, *tensor);
    *strides[i] = row_strides(*tensor);
    p.aligned = p.aligned && rows_aligned(*tensor, *strides[i]);
  }
  check_no_overlap("out", args.out);
}

void expect_any_length(const char* what, const char* axis, std::int64_t size) {
  if (size >= 0 && size <= kMaxSeqlen) return;
  reject("{}: {} axis is {}; expected 0 to {}", what, axis, size, kMaxSeqlen);
}

void expect_batch_axis(const char* what, std::int64_t size, const Problem& p) {
  if (size == 1 || size == p.batch || (size > 1 && p.batch % size == 0)) return;
  reject("{}: batch axis is {}; expected a divisor of {} ({})", what, size, p.batch,
         p.packed ? "sequences" : "batch of q");
}

void expect_head_axis(const char* what, std::int64_t size, const Problem& p) {
  if (size == 1 || size == p.num_heads_kv || size == p.num_heads_q) return;
  if (p.num_heads_kv == p.num_heads_q) {
    reject("{}: head axis is {}; expected 1 or {} (heads)", what, size, p.num_heads_q);
  }
  if (p.num_heads_kv == 1) {
    reject("{}: head axis is {}; expected 1 or {} (query heads)", what, size, p.num_heads_q);
  }
  reject("{}: head axis is {}; expected 1, {} (kv heads) or {} (query heads)", what, size,
         p.num_heads_kv, p.num_heads_q);
}

Operand make_operand(const char* what, const Tensor& tensor, const PlaneOrder& order,
                     const Problem& p) {
  expect_batch_axis(what, tensor.shape[0], p);
  const BatchCycle cycle = checked_cycle(what, tensor.shape[0], order, p);
  expect_head_axis(what, tensor.shape[1], p);
  if (p.packed) {
    expect_any_length(what, "query", tensor.shape[2]);
    expect_any_length(what, "key", tensor.shape[3]);
  } else {
    expect_axis(what, "query", tensor.shape[2], p.seqlen_q, "sequence of q");
    expect_axis(what, "key", tensor.shape[3], p.seqlen_kv, "sequence of k");
  }
  check_memory(what, tensor);
  if (empty_tensor(tensor)) return {};  // no score to change, and nothing that may be read
  Operand o = canonical_operand(tensor);
  if (o.num_batches > 1) o.cycle = cycle;
  o.packs_keys = p.packed && !p.paged() && o.extent == Extent::kPerKey && o.batch_stride == 0 &&
                 o.keys == p.seqlen_kv;
  // Packed keys of a sequence may begin at an odd address.
  if (o.packs_keys) o.vectorized = false;
  return o;
}

// Rows and keys of a sequence that an operand has: those past them are dropped.
void limit_sequences(const Tensor& tensor, const Operand& o, Problem& p) {
  if (!p.packed) return;
  const auto limit = [](std::int32_t& most, std::int64_t size) {
    if (size != 1) most = static_cast<std::int32_t>(std::min<std::int64_t>(most, size));
  };
  limit(p.operand_queries, tensor.shape[2]);
  if (!o.packs_keys) limit(p.operand_keys, tensor.shape[3]);
}

// A prepared mask, as if it were the dense one that its shape tells of.
void check_prepared_mask(const ForwardArgs& args, Problem& p) {
  if (args.mask) reject("prepared_mask: given together with mask; leave one of them out");
  const PreparedMask& mask = *args.prepared_mask;
  const Tensor dense = Tensor::contiguous(const_cast<void*>(mask.data), DType::kBool, mask.shape);
  p.mask = make_operand("prepared_mask", dense, args.mask_order, p);
  if (p.mask.extent == Extent::kAbsent) return;
  if (p.mask.extent == Extent::kPerQuery) {
    reject(
        "prepared_mask: key axis is {}; a mask that is the same for all keys has no prepared form; "
        "pass it as mask",
        mask.shape[3]);
  }
  if (p.mask.packs_keys) {
    reject(
        "prepared_mask: batch and query axis are 1 and the key axis is {}, the keys of all packed "
        "sequences in one row, which have no prepared form; pass it as mask",
        mask.shape[3]);
  }
  if (!is_multiple(address(mask.data), 16)) {
    reject("prepared_mask: address {} is not a multiple of 16 bytes", mask.data);
  }
  limit_sequences(dense, p.mask, p);
  p.mask.vectorized = true;  // whatever its sizes
  p.mask_prepared = true;
}

void check_operands(const ForwardArgs& args, Problem& p) {
  if (p.packed) p.operand_queries = p.operand_keys = static_cast<std::int32_t>(kMaxSeqlen);
  if (!args.mask && !args.prepared_mask) expect_no_order("mask", args.mask_order);
  if (!args.bias) expect_no_order("bias", args.bias_order);
  if (args.mask) {
    if (args.mask->dtype != DType::kBool) {
      reject("mask: dtype is {}; expected bool (true = keep); scores to add go to bias",
             name(args.mask->dtype));
    }
    p.mask = make_operand("mask", *args.mask, args.mask_order, p);
    limit_sequences(*args.mask, p.mask, p);
  }
  if (args.prepared_mask) check_prepared_mask(args, p);
  if (args.bias) {
    if (args.bias->dtype == DType::kBool) {
      reject("bias: dtype is bool; expected {} or fp32; a keep mask goes to mask", name(p.dtype));
    }
    if (args.bias->dtype != p.dtype && args.bias->dtype != DType::kFloat32) {
      reject("bias: dtype is {}; expected {} (as q) or fp32", name(args.bias->dtype),
             name(p.dtype));
    }
    p.bias = make_operand("bias", *args.bias, args.bias_order, p);
    limit_sequences(*args.bias, p.bias, p);
  }
}

}  // namespace

Problem make_problem(const ForwardArgs& args, bool copies_keys) {
  Problem p;
  check_block_table(args);
  p.packed = checked_packing(args);
  check_shapes(args, p);
  check_tensors(args, p);
  check_operands(args, p);
  check_sink(args, p);
  check_alibi(args, p);
  check_expressions(args, p);
  check_blocks(args, p);
  check_band(args, p);
  check_tail_mask(args, p);
  check_aligned_pointer("lse", args.lse);
  check_aligned_pointer("row_max", args.row_max);
  check_aligned_pointer("max_logits", args.max_logits);
  check_aligned_pointer("seqlens_q", args.seqlens_q);
  check_aligned_pointer("seqlens_kv", args.seqlens_kv);
  p.has_lse = args.lse != nullptr;
  p.has_row_max = args.row_max != nullptr;
  p.has_max_logits = args.max_logits != nullptr;
  p.has_seqlens_q = args.seqlens_q != nullptr;
  p.has_seqlens_kv = args.seqlens_kv != nullptr || p.paged();
  for (const Scalar& scalar : kScalars) {
    const float value = (args.*scalar.given).value_or(scalar.usual(p));
    if (!scalar.takes(value)) reject("{}: {}; expected {}", scalar.name, value, scalar.allowed);
    p.*scalar.value = value + 0.0f;  // -0 and 0 are one problem
  }
  if (args.key_indices) select_keys(args, copies_keys, p);
  return p;
}

ReadsBlocks ReadsBlocks::parse(std::string_view text) {
  if (text != kText && !text.empty()) reject("blocks: \"{}\"; expected \"{}\"", text, kText);
  return ReadsBlocks(!text.empty());
}

KeyIndices KeyIndices::parse(std::string_view text) {
  if (text.empty()) return {};
  for (const DType dtype : {DType::kInt32, DType::kInt64}) {
    for (const bool in_place : {false, true}) {
      if (const KeyIndices indices(dtype, in_place); indices.text() == text) return indices;
    }
  }
  reject("key_indices: \"{}\"; expected \"int32\" or \"int64\", with \" in place\" or without",
         text);
}

Family family(const Problem& problem) {
  Family f;
  f.dtype = problem.dtype;
  f.head_dim = problem.head_dim;
  f.head_dim_v = problem.head_dim_v;
  f.gqa_ratio = problem.gqa_ratio();
  f.aligned = problem.aligned;
  // Folded into the exponent it is multiplied by log2(e), which a scale near the largest fp32 does
  // not survive, and lse may be divided by it (kernel::kRowBf16x3Bytes).
  f.positive_scale = problem.scale >= 0x1p-64f && std::isfinite(problem.scale * 1.4427f);
  f.softcap = problem.softcap > 0.0f;
  f.mask = problem.mask.extent;
  f.mask_vectorized = problem.mask.vectorized;
  f.mask_per_query_head = problem.mask_per_query_head();
  f.mask_groups_batch = problem.groups_batch(problem.mask.num_batches);
  f.mask_packs_keys = problem.mask.packs_keys;
  f.mask_few_rows = problem.mask_has_few_rows();
  f.bias = problem.bias.extent;
  if (problem.bias.extent != Extent::kAbsent) f.bias_dtype = problem.bias.dtype;
  f.bias_vectorized = problem.bias.vectorized;
  f.bias_groups_batch = problem.groups_batch(problem.bias.num_batches);
  f.bias_packs_keys = problem.bias.packs_keys;
  f.bounded_left = problem.bounded_left;
  f.bounded_right = problem.bounded_right;
  f.seqlens = !problem.packed && (problem.has_seqlens_q || problem.has_seqlens_kv);
  f.packed = problem.packed;
  f.sink = problem.sink.exists;
  f.sink_dtype = problem.sink.dtype;
  f.alibi = problem.alibi.exists;
  f.alibi_one_sided = f.alibi && problem.bounded_right && problem.right <= 0;
  f.row_max = problem.has_row_max || problem.has_max_logits;
  f.page_size = problem.page_size;
  f.tail_mask = problem.tail_mask.exists;
  f.mask_prepared = problem.mask_prepared;
  f.score = problem.score;
  f.keep = problem.keep;
  f.blocks = ReadsBlocks(problem.blocks.exist());
  if (const KeySelection& s = problem.selection; s.exists) f.key_indices = {s.dtype, s.in_place};
  return f;
}

}  // namespace attnjit::problem
