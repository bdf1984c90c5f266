#include "problem/merge_problem.hpp"

#include <limits>

#include "problem/checks.hpp"

namespace attnjit::problem {
namespace {

using namespace checks;

constexpr std::int64_t kMostColumns = std::int64_t{1} << 29;
constexpr std::int64_t kMostParts = std::numeric_limits<std::int32_t>::max();

void expect_float(const char* what, const Tensor& tensor) {
  const bool is_half = tensor.dtype == DType::kFloat16 || tensor.dtype == DType::kBFloat16;
  if (!is_half && tensor.dtype != DType::kFloat32) {
    reject("{}: dtype is {}; expected fp16, bf16 or fp32", what, name(tensor.dtype));
  }
}

// A tensor of rows; whether they suit 16-byte accesses is added to `aligned`.
RowStrides check_rows(const char* what, const Tensor& tensor, const Tensor& like, bool& aligned) {
  for (int axis = 0; axis < 4; ++axis) {
    expect_size(what, tensor, axis, like.shape[axis], "as parts");
  }
  check_features(what, tensor);
  check_memory(what, tensor);
  const RowStrides strides = row_strides(tensor);
  aligned = aligned && rows_aligned(tensor, strides);
  return strides;
}

void expect_lse(const char* what, const float* lse, const char* shape) {
  if (lse == nullptr) reject("{}: null; expected {} fp32", what, shape);
  check_aligned_pointer(what, lse);
}

void check_carry(const MergeLseArgs& args, MergeProblem& p) {
  if (!args.carry) {
    if (args.carry_lse != nullptr) reject("carry_lse: there is no carry; leave it out");
    return;
  }
  if (args.carry->dtype != DType::kFloat32) {
    reject("carry: dtype is {}; expected fp32", name(args.carry->dtype));
  }
  p.carry = check_rows("carry", *args.carry, args.parts, p.key.aligned);
  if (!p.empty()) expect_lse("carry_lse", args.carry_lse, "[batch, heads, rows]");
  p.key.carry = true;
}

}  // namespace

MergeProblem make_problem(const MergeLseArgs& args) {
  const auto& [b, h, l, dv] = args.parts.shape;
  MergeProblem p;
  p.batch = checked_size("parts", 0, b, 0, kMostParts);
  p.num_heads = checked_size("parts", 1, h, 1, kMostParts);
  p.seqlen_q = checked_size("parts", 2, l, 0, kMaxSeqlen);
  p.key.head_dim_v = checked_size("parts", 3, dv, 1, kMostColumns);
  if (args.num_parts < 1 || args.num_parts > kMostParts) {
    reject("num_parts: {}; expected 1 to {}", args.num_parts, kMostParts);
  }
  p.num_parts = static_cast<std::int32_t>(args.num_parts);
  expect_float("parts", args.parts);
  expect_float("out", args.out);
  p.key.part_dtype = args.parts.dtype;
  p.key.dtype = args.out.dtype;
  p.part_stride = p.num_parts == 1 ? 0 : args.part_stride;
  const auto element = static_cast<std::uint64_t>(element_size(args.parts.dtype));
  p.key.aligned =
      dv % 8 == 0 && is_multiple(static_cast<std::uint64_t>(p.part_stride) * element, 16);
  p.parts = check_rows("parts", args.parts, args.parts, p.key.aligned);
  p.out = check_rows("out", args.out, args.parts, p.key.aligned);
  check_no_overlap("out", args.out);
  if (!p.empty()) expect_lse("part_lses", args.part_lses, "[parts, batch, heads, rows]");
  check_carry(args, p);
  check_aligned_pointer("lse", args.lse);
  return p;
}

std::string describe(const MergeProblem& p) {
  return fmt::format("merge of {} parts, {} to {}, b{} h{} l{} dv{}{}{}", p.num_parts,
                     name(p.key.part_dtype), name(p.key.dtype), p.batch, p.num_heads, p.seqlen_q,
                     p.key.head_dim_v, p.key.aligned ? "" : " unaligned",
                     p.key.carry ? " carry" : "");
}

}  // namespace attnjit::problem
