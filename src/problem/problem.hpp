#pragma once
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "attnjit/forward.hpp"
#include "base/dtype.hpp"
#include "base/fields.hpp"
#include "expr/interned.hpp"

/// WHAT is to be computed: validated, canonical, and free of any idea of how.
namespace attnjit::problem {

/// Over which axes of a (query, key) plane a mask or bias varies. Batch and head broadcasts are
/// strides only and make no other kernel, but for groups of batch elements.
enum class Extent : std::int32_t { kAbsent = 0, kPerQuery = 1, kPerKey = 2, kPerPair = 3 };

/// Whether an operand of that extent differs from key to key, so that the scores must meet it.
constexpr bool varies_over_keys(Extent extent) {
  return extent == Extent::kPerKey || extent == Extent::kPerPair;
}

/// The order in which batch elements share the planes of a mask, a bias or a dbias, in canonical
/// form: each run of neighbouring elements has one, and runs take `planes` planes by turns until,
/// after `period` runs, the next ones follow. Without repetition both numbers are 1.
struct BatchCycle {
  std::int32_t planes = 1, period = 1;

  /// Runs that share a plane.
  std::int32_t runs() const { return period / planes; }
  bool operator==(const BatchCycle&) const = default;
};

/// A mask or bias in canonical form: an axis that is broadcast, or whose problem size is 1, has
/// stride 0.
struct Operand {
  Extent extent = Extent::kAbsent;
  DType dtype = DType::kBool;
  std::int64_t batch_stride = 0, head_stride = 0, query_stride = 0, key_stride = 0;  // elements
  std::int32_t num_batches = 1;        ///< distinct planes over the batch: 1, or a divisor of it
  BatchCycle cycle;                    ///< of these planes
  std::int32_t queries = 1, keys = 1;  ///< sizes of its last two axes; 1 where it is broadcast
  bool packs_keys = false;             ///< its one row has the keys of all packed sequences
  std::int32_t num_heads = 1;          ///< distinct head planes: 1, Hkv or Hq
  bool vectorized = false;  ///< rows are contiguous, 16-byte aligned and so are all strides

  bool operator==(const Operand&) const = default;
};

/// A number per query head, or per batch element and query head, in canonical form.
struct PerHead {
  bool exists = false;
  DType dtype = DType::kFloat32;
  // Elements; 0 where there is one, or one for all batch elements.
  std::int64_t batch_stride = 0, head_stride = 0;

  bool operator==(const PerHead&) const = default;
};

/// A mask over the last keys in use, which has a column for each query, in canonical form.
struct TailMask {
  bool exists = false;
  std::int64_t batch_stride = 0, query_stride = 0, key_stride = 0;  // elements

  bool operator==(const TailMask&) const = default;
};

/// An operand of an expression in canonical form.
struct ExpressionOperand {
  /// Places of operands that a kernel makes, of lists of blocks or of key indices, instead of an
  /// argument.
  static constexpr std::int32_t kListedBlocks = -1, kFullBlocks = -2, kSelectedKeys = -3,
                                kKeyNumbers = -4;
  /// Places of other tensors of a call over selected keys.
  static constexpr std::int32_t kMask = -5, kBias = -6, kSlopes = -7;

  std::int32_t argument = 0;  ///< its place in ForwardArgs::operands, or one of the above
  DType dtype = DType::kFloat32;
  std::int32_t rank = 0;
  std::array<std::int64_t, expr::kMaxRank> sizes{},
      strides{};  ///< of its axes; strides in elements

  bool operator==(const ExpressionOperand&) const = default;
};

/// The operands of one expression, in its order.
using ExpressionOperands = std::array<ExpressionOperand, expr::kMaxOperands>;

/// Lists of one kind for all blocks of rows, in canonical form: axes of size 1 have stride 0.
struct BlockList {
  bool exists = false;
  std::int32_t most = 0;  ///< entries of a list at most
  std::array<std::int64_t, 4> index_strides{},
      count_strides{};  ///< over (batch, head, row block, entry), in elements

  bool operator==(const BlockList&) const = default;
};

/// Lists of blocks in canonical form. None exist where block_q is 0.
struct Blocks {
  std::int32_t block_q = 0, block_kv = 0;  ///< rows and keys of a block
  std::int32_t batches = 1, heads = 1;     ///< that have lists of their own
  std::int32_t row_blocks = 0, key_blocks = 0;
  BlockList listed, full;

  bool exist() const { return block_q != 0; }
  /// Bytes from one block of rows to the next where each block of keys has a byte.
  std::int64_t line_bytes() const { return (std::int64_t{key_blocks} + 15) / 16 * 16; }
  /// Blocks of rows of all batch elements and heads that have lists.
  std::int64_t lines() const { return std::int64_t{batches} * heads * row_blocks; }
  bool operator==(const Blocks&) const = default;
};

/// Strides of q, k, v or out over (batch, head, row), in elements; 0 on axes of size 1.
struct RowStrides {
  std::int64_t batch = 0, head = 0, row = 0;
  bool operator==(const RowStrides&) const = default;
};

/// Keys that a call names by their numbers, in canonical form. Its problem is that of the keys so
/// selected: `seqlen_kv` is their number, and the expressions have taken in what depends on a key's
/// own. A kernel copies them one after another into the workspace, and `k` and `v` are the copies;
/// of few rows, which read each key once, the kernel itself reads them `in_place`. What the caller
/// has given instead is here.
struct KeySelection {
  bool exists = false;
  bool in_place = false;
  DType dtype = DType::kInt32;                                     ///< of the indices
  std::int64_t batch_stride = 0, head_stride = 0, key_stride = 0;  // elements
  std::int32_t width = 0;                                          ///< W
  std::int32_t num_keys = 0;                                       ///< Lk
  RowStrides k, v;
  bool has_seqlens_kv = false;
  Operand mask, bias;
  PerHead alibi;
  bool bounded_left = false, bounded_right = false;
  std::int32_t left = 0, right = 0;
  float softcap = 0.0f;
  expr::Ref score, keep;

  bool operator==(const KeySelection&) const = default;
};

/// Whether an expression reads where the diagonal lies.
inline bool uses_offset(const expr::Ref& e) {
  return e && (e->uses & expr::use_of(expr::Index::kOffset)) != 0;
}

/// A validated forward problem: everything but the addresses. Two calls with equal problems run
/// the same kernels with the same parameters.
struct Problem {
  DType dtype = DType::kBFloat16;
  std::int32_t batch = 0, num_heads_q = 0, num_heads_kv = 0;  ///< packed sequences are the batch
  std::int32_t seqlen_q = 0, seqlen_kv = 0;  ///< of the tensors, whose rows sequences may share;
                                             ///< of paged keys those that a row of the table names
  std::int32_t head_dim = 0, head_dim_v = 0;
  RowStrides q, k, v, out;
  bool aligned = false;  ///< q, k, v, out: addresses and strides are multiples of 16 bytes
  Operand mask, bias;
  bool mask_prepared = false;  ///< as PreparedMask; its strides are those of a dense one
  PerHead sink, alibi;
  bool bounded_left = false, bounded_right = false;  ///< window; causal bounds the right at 0
  std::int32_t left = 0, right = 0;                  ///< keys; 0 unless bounded
  bool bottom_right = false;                         ///< false unless bounded or with alibi
  std::int32_t diagonal_offset = 0;                  ///< 0 unless bounded or with alibi
  bool packed = false;  ///< sequences lie one after another in tensors without a batch axis, those
                        ///< of k and v unless they are pages
  std::int32_t operand_queries = 0, operand_keys = 0;  ///< of a sequence that mask and bias have
  bool has_seqlens_q = false, has_seqlens_kv = false;
  bool has_lse = false, has_row_max = false, has_max_logits = false;
  float scale = 1.0f;
  float softcap = 0.0f;                       ///< 0: none
  std::int32_t page_size = 0, num_pages = 0;  ///< of paged keys and of their pool; else 0
  std::int64_t table_stride = 0;              ///< of the block table's rows; 0 where there is one
  TailMask tail_mask;
  expr::Ref score, keep;                             ///< expressions
  ExpressionOperands score_operands, keep_operands;  ///< of these, and defaults past their number
  std::int32_t row_offset = 0, key_offset = 0;       ///< 0 unless these name them
  Blocks blocks;                                     ///< which `keep` takes in
  expr::Ref caller_keep;                             ///< `keep` without them, where they exist
  KeySelection selection;

  std::int32_t gqa_ratio() const { return num_heads_q / num_heads_kv; }
  /// Whether `planes` over the batch are more than one, and each is shared by several elements.
  bool groups_batch(std::int32_t planes) const { return planes > 1 && planes < batch; }
  /// Neighbouring batch elements of a run, that share one of `planes` planes.
  std::int32_t run_length(std::int32_t planes, const BatchCycle& cycle) const {
    return batch / (planes * cycle.runs());
  }
  /// Whether anything depends on where the diagonal lies.
  bool has_diagonal() const {
    return bounded_left || bounded_right || alibi.exists || uses_offset(score) || uses_offset(keep);
  }
  bool has_rows() const { return batch != 0 && seqlen_q != 0; }
  /// Whether there is nothing to write.
  bool empty() const { return !has_rows() && !has_max_logits; }
  /// The batch axis of q and out.
  std::int32_t tensor_batch() const { return packed ? 1 : batch; }
  bool paged() const { return page_size > 0; }
  /// The keys of the call, of which selected ones may be those of the problem.
  std::int32_t num_keys() const { return selection.exists ? selection.num_keys : seqlen_kv; }
  /// Whether query heads of a kv head have masks of their own.
  bool mask_per_query_head() const {
    return varies_over_keys(mask.extent) && mask.num_heads > num_heads_kv;
  }
  /// Whether few rows read the mask, no more than are in the smallest tile: one over keys, of
  /// sequences that are not packed.
  bool mask_has_few_rows() const {
    constexpr std::int64_t kFew = 16;
    const std::int64_t heads = mask_per_query_head() ? 1 : gqa_ratio();
    return mask.extent == Extent::kPerKey && !mask.packs_keys && !mask_prepared && !packed &&
           seqlen_q * heads <= kFew;
  }
  /// The first and the third axis of k and v.
  std::int32_t key_planes() const { return paged() ? num_pages : tensor_batch(); }
  std::int32_t key_rows() const { return paged() ? page_size : seqlen_kv; }
  bool operator==(const Problem&) const = default;
};

/// A number that a call may set, a finite one: a member of manifests and a flag of the command line
/// by its name. Descriptions and manifest lines name it where it is not as usual.
struct Scalar {
  const char* name;
  const char* help;
  float least;
  const char* allowed;  ///< completes "expected ..."
  std::optional<float> ScoreOptions::*given;
  float Problem::*value;
  float (*usual)(const Problem& problem);

  bool takes(float number) const { return std::isfinite(number) && number >= least; }
};
inline float usual_scale(const Problem& p) {
  return 1.0f / std::sqrt(static_cast<float>(p.head_dim));
}
inline float no_softcap(const Problem&) { return 0.0f; }
inline constexpr Scalar kScalars[] = {
    {"scale", "Of the scores; default 1 / sqrt(head dim)", std::numeric_limits<float>::lowest(),
     "a finite number", &ScoreOptions::scale, &Problem::scale, usual_scale},
    {"softcap", "c of c tanh(score / c), before the bias; default 0, none", 0.0f,
     "a finite number from 0 on, 0 = none", &ScoreOptions::softcap, &Problem::softcap, no_softcap}};

/// Longest sequence that is accepted: sums of three lengths still fit in 32 bits.
inline constexpr std::int64_t kMaxSeqlen = std::int64_t{1} << 29;
/// Most sequences that may be packed: with a tile each their rows still fit in 32 bits.
inline constexpr std::int64_t kMaxSequences = std::int64_t{1} << 23;

/// Elements from one row of selected keys or values to the next.
constexpr std::int64_t selected_row(std::int32_t head_dim) {
  return (std::int64_t{head_dim} + 7) / 8 * 8;
}
/// The problem as the caller sees it, where keys are selected; else the same. Its expressions have
/// the operands of `problem`.
Problem as_called(const Problem& problem);

/// Checks `args` against docs/reference/semantics.md and brings them to canonical form. Looks at
/// addresses only for null and alignment; touches no memory. Throws Error(kInvalidProblem) that
/// names the argument, what it has and what is allowed. `copies_keys`: selected keys become copies
/// whatever the number of rows, as a backward needs them.
Problem make_problem(const ForwardArgs& args, bool copies_keys = false);

/// Whether the keep expression of a family reads lists of blocks. As a text, which JSON lacks where
/// it is empty: records of versions without lists stay valid.
class ReadsBlocks {
 public:
  ReadsBlocks() = default;
  explicit ReadsBlocks(bool value) : value_(value) {}

  explicit operator bool() const { return value_; }
  explicit operator std::uint64_t() const { return value_ ? 1 : 0; }
  std::string_view text() const { return value_ ? kText : std::string_view(); }
  /// Throws Error(kInvalidProblem) for another text than those of text().
  static ReadsBlocks parse(std::string_view text);
  auto operator<=>(const ReadsBlocks&) const = default;

 private:
  static constexpr std::string_view kText = "listed";

  bool value_ = false;
};

/// The key indices of a family, if it has some: their dtype, and whether the kernel reads the keys
/// in place. As a text, as ReadsBlocks.
class KeyIndices {
 public:
  KeyIndices() = default;
  KeyIndices(DType dtype, bool in_place)
      : bytes_(static_cast<std::int32_t>(element_size(dtype))), in_place_(in_place) {}

  explicit operator bool() const { return bytes_ != 0; }
  explicit operator std::uint64_t() const {
    return static_cast<std::uint64_t>(2 * bytes_ + (in_place_ ? 1 : 0));
  }
  std::int32_t bytes() const { return bytes_; }
  bool in_place() const { return in_place_; }
  std::string_view text() const {
    if (bytes_ == 0) return "";
    if (in_place_) return bytes_ == 4 ? "int32 in place" : "int64 in place";
    return bytes_ == 4 ? "int32" : "int64";
  }
  /// Throws Error(kInvalidProblem) for another text than those of text().
  static KeyIndices parse(std::string_view text);
  auto operator<=>(const KeyIndices&) const = default;

 private:
  std::int32_t bytes_ = 0;
  bool in_place_ = false;
};

/// The properties of a problem that a kernel is specialised for. Lengths, batch, head counts,
/// strides, window widths and the scale's value are run-time arguments and not here.
struct Family {
  DType dtype = DType::kBFloat16;
  std::int32_t head_dim = 0, head_dim_v = 0, gqa_ratio = 1;
  bool aligned = false;
  bool positive_scale = true;  ///< and of a size to be folded into the exponent
  bool softcap = false;
  Extent mask = Extent::kAbsent;
  bool mask_vectorized = false;
  bool mask_per_query_head = false;  ///< a mask over keys that differs between heads of a kv head
  bool mask_groups_batch = false;    ///< batch elements share planes of the mask, which has several
  bool mask_packs_keys = false;      ///< its one row has the keys of all packed sequences
  bool mask_few_rows = false;        ///< Problem::mask_has_few_rows(), of a forward
  Extent bias = Extent::kAbsent;
  DType bias_dtype = DType::kBFloat16;
  bool bias_vectorized = false;
  bool bias_groups_batch = false;
  bool bias_packs_keys = false;
  bool bounded_left = false, bounded_right = false;
  bool seqlens = false;
  bool packed = false;  ///< sequences are; lengths beside them make no other kernel
  bool sink = false;
  DType sink_dtype = DType::kFloat32;
  bool alibi = false;
  bool alibi_one_sided = false;  ///< keys past the diagonal of its slopes are dropped
  bool row_max = false;          ///< the largest scores of rows are wanted, of a forward
  std::int32_t page_size = 0;    ///< keys of a page, 0: keys are not paged
  bool tail_mask = false;
  bool mask_prepared = false;  ///< Context::prepare_mask() has packed it before the call
  expr::Ref score, keep;       ///< expressions
  ReadsBlocks blocks;          ///< of the keep expression
  KeyIndices key_indices;      ///< k and v are copies of the keys that these select, or hold them

  auto operator<=>(const Family&) const = default;
};

constexpr auto fields(const Family*) {
  using F = Family;
  return base::fields_of<F>(
      base::Field{"dtype", &F::dtype}, base::Field{"head_dim", &F::head_dim},
      base::Field{"head_dim_v", &F::head_dim_v}, base::Field{"gqa_ratio", &F::gqa_ratio},
      base::Field{"aligned", &F::aligned}, base::Field{"positive_scale", &F::positive_scale},
      base::Field{"softcap", &F::softcap}, base::Field{"mask", &F::mask},
      base::Field{"mask_vectorized", &F::mask_vectorized},
      base::Field{"mask_per_query_head", &F::mask_per_query_head},
      base::Field{"mask_groups_batch", &F::mask_groups_batch},
      base::Field{"mask_packs_keys", &F::mask_packs_keys},
      base::Field{"mask_few_rows", &F::mask_few_rows}, base::Field{"bias", &F::bias},
      base::Field{"bias_dtype", &F::bias_dtype},
      base::Field{"bias_vectorized", &F::bias_vectorized},
      base::Field{"bias_groups_batch", &F::bias_groups_batch},
      base::Field{"bias_packs_keys", &F::bias_packs_keys},
      base::Field{"bounded_left", &F::bounded_left},
      base::Field{"bounded_right", &F::bounded_right}, base::Field{"seqlens", &F::seqlens},
      base::Field{"packed", &F::packed}, base::Field{"sink", &F::sink},
      base::Field{"sink_dtype", &F::sink_dtype}, base::Field{"alibi", &F::alibi},
      base::Field{"alibi_one_sided", &F::alibi_one_sided}, base::Field{"row_max", &F::row_max},
      base::Field{"page_size", &F::page_size}, base::Field{"tail_mask", &F::tail_mask},
      base::Field{"mask_prepared", &F::mask_prepared}, base::Field{"score", &F::score},
      base::Field{"keep", &F::keep}, base::Field{"blocks", &F::blocks},
      base::Field{"key_indices", &F::key_indices});
}

/// Flags that descriptions name where they are set.
inline constexpr std::pair<const char*, bool Family::*> kFlags[] = {
    {"left", &Family::bounded_left},        {"right", &Family::bounded_right},
    {"seqlens", &Family::seqlens},          {"packed", &Family::packed},
    {"softcap", &Family::softcap},          {"alibi", &Family::alibi},
    {"tail_mask", &Family::tail_mask},      {"row_max", &Family::row_max},
    {"one_sided", &Family::alibi_one_sided}};

/// Whether the keys of rows begin at a bound, or end at one, that rises with them: by a window,
/// causal or a keep expression. Of a Problem or a Family.
template <class Scores>
bool has_left_bound(const Scores& scores) {
  return scores.bounded_left || (scores.keep && scores.keep->bounded.left);
}
template <class Scores>
bool has_right_bound(const Scores& scores) {
  return scores.bounded_right || (scores.keep && scores.keep->bounded.right);
}
/// Whether later rows have more keys.
template <class Scores>
bool rows_rise(const Scores& scores) {
  return has_right_bound(scores) && !has_left_bound(scores);
}

Family family(const Problem& problem);

/// The broadcast pattern of an operand of `problem`, e.g. "1hqk", "b11k", "bgqk" (g: one plane per
/// kv head), "shqk/2" (s: two planes that neighbouring batch elements share), "p1qk/64x1" (p: 64
/// planes that repeat, each for one element), "p1qk/64x1x8" (eight by turns, then the next eight);
/// "none" if absent.
std::string pattern(const Problem& problem, const Operand& operand);

/// The axes that slopes differ over: "h", heads, or "bh", batch elements too; "none" if absent.
const char* alibi_pattern(const Problem& problem);

/// Whether batch elements have masks of their own over the last keys, "b", or share one, "1";
/// "none" if absent.
const char* tail_mask_pattern(const Problem& problem);

/// Rows and keys of a block, and the batch elements and heads that have lists of their own:
/// "64x128/bh", "64x64/1g"; "none" if absent.
std::string blocks_pattern(const Problem& problem);

/// The number of key indices, and the batch elements and kv heads that have some of their own:
/// "2048/bg", "2048/11"; "none" if absent.
std::string key_indices_pattern(const Problem& problem);

/// One line that says everything about the problem except its strides, e.g. for error messages.
std::string describe(const Problem& problem);

/// One line, e.g. "bf16 d128 gqa4 right mask=1k".
std::string describe(const Family& family);

/// "bf16", "fp16", "fp32", "bool".
const char* name(DType dtype);

}  // namespace attnjit::problem

template <>
struct attnjit::base::Words<attnjit::problem::Extent> {
  using enum problem::Extent;
  static constexpr Word<problem::Extent> kAll[] = {
      {"none", kAbsent}, {"q1", kPerQuery}, {"1k", kPerKey}, {"qk", kPerPair}};
};
