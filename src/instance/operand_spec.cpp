#include "instance/operand_spec.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "attnjit/error.hpp"
#include "base/dtype.hpp"
#include "base/printable.hpp"
#include "expr/node.hpp"
#include "instance/problem_spec.hpp"
#include "instance/take.hpp"
#include "tensor/half.hpp"

namespace attnjit::instance {
namespace {

using Fill = OperandSpec::Fill;
constexpr std::pair<std::string_view, Fill> kFills[] = {{"normal", Fill::kNormal},
                                                        {"below", Fill::kBelow},
                                                        {"sorted", Fill::kSorted},
                                                        {"count", Fill::kCount}};
// Short spellings of the command line.
constexpr std::pair<std::string_view, DType> kShortDtypes[] = {
    {"f32", DType::kFloat32}, {"f16", DType::kFloat16}, {"i32", DType::kInt32}};
constexpr std::string_view kAxisLetters = "bhgqk";

[[noreturn]] void refuse(std::string_view text, std::string_view why) {
  throw Error(ErrorKind::kInvalidProblem,
              fmt::format("operand '{}': {}; expected NAME=DTYPE[:AXES[:FILL]], such as "
                          "rel=fp32:h,257 or doc=int32:b,k:sorted/16",
                          base::excerpt(text), why));
}

std::optional<std::int64_t> number(std::string_view text) {
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  const bool whole = error == std::errc{} && stop == end;
  return whole && value >= 0 && value <= std::int64_t{1} << 31 ? std::optional(value)
                                                               : std::nullopt;
}

DType parse_dtype(std::string_view word, std::string_view text) {
  for (const auto& [name, dtype] : kShortDtypes) {
    if (word == name) return dtype;
  }
  for (const auto& each : base::Words<DType>::kAll) {
    if (word == each.text) return each.value;
  }
  refuse(text, fmt::format("dtype '{}' is none", base::excerpt(word)));
}

std::int64_t axis_size(const ProblemSpec& spec, const std::string& axis) {
  switch (axis[0]) {
    case 'b':
      return spec.batch;
    case 'h':
      return spec.heads_q;
    case 'g':
      return spec.heads_kv;
    case 'q':
      return spec.seqlen_q;
    case 'k':
      return spec.seqlen_kv;
    default:
      return number(axis).value_or(0);
  }
}

double value_at(const OperandSpec& operand, std::int64_t limit, std::int64_t column,
                std::uint64_t index, tensor::Random random) {
  switch (operand.fill) {
    case Fill::kNormal:
      return random.normal(index);
    case Fill::kCount:
      return static_cast<double>(column);
    default:
      return static_cast<double>(random.below(index, limit));
  }
}

}  // namespace

OperandSpec parse_operand(std::string_view text) {
  OperandSpec operand;
  std::string_view rest = text;
  operand.name = take(rest, '=');
  operand.dtype = parse_dtype(take(rest, ':'), text);
  operand.fill = operand.dtype == DType::kInt32 || operand.dtype == DType::kBool ? Fill::kBelow
                                                                                 : Fill::kNormal;
  operand.limit = operand.dtype == DType::kBool ? 2 : 0;
  std::string_view axes = take(rest, ':');
  while (!axes.empty()) {
    const std::string_view axis = take(axes, ',');
    const bool letter = axis.size() == 1 && kAxisLetters.find(axis[0]) != axis.npos;
    if (!letter && !number(axis)) {
      refuse(text, fmt::format("axis '{}' is no letter of {} and no size", base::excerpt(axis),
                               kAxisLetters));
    }
    operand.axes.emplace_back(axis);
  }
  if (operand.axes.size() > expr::kMaxRank) {
    refuse(text, fmt::format("{} axes; expected at most {}", operand.axes.size(), expr::kMaxRank));
  }
  if (rest.empty()) return operand;
  const std::string_view fill = take(rest, '/');
  const auto* const found =
      std::ranges::find(kFills, fill, [](const auto& each) { return each.first; });
  if (found == std::end(kFills)) {
    refuse(text,
           fmt::format("fill '{}' is none of normal, below, sorted, count", base::excerpt(fill)));
  }
  operand.fill = found->second;
  if (rest.empty()) return operand;
  const auto limit = number(rest);
  if (!limit || *limit == 0) {
    refuse(text, fmt::format("limit '{}' is no number above 0", base::excerpt(rest)));
  }
  operand.limit = *limit;
  return operand;
}

std::string text_of(const OperandSpec& operand) {
  const auto* const fill =
      std::ranges::find(kFills, operand.fill, [](const auto& each) { return each.second; });
  return fmt::format("{}={}:{}:{}{}", operand.name, base::word(operand.dtype),
                     fmt::join(operand.axes, ","), fill->first,
                     operand.limit == 0 ? "" : fmt::format("/{}", operand.limit));
}

bool wants_gradient(const ProblemSpec& spec, const OperandSpec& operand) {
  return std::ranges::find(spec.grad, operand.name) != spec.grad.end();
}

Tensor operand_view(const ProblemSpec& spec, const OperandSpec& operand) {
  Tensor view{nullptr, operand.dtype, {1, 1, 1, 1}, {1, 1, 1, 1}};
  std::int64_t stride = 1;
  for (std::size_t axis = operand.axes.size(); axis-- > 0;) {
    view.shape[axis] = axis_size(spec, operand.axes[axis]);
    view.strides[axis] = stride;
    const bool last = axis + 1 == operand.axes.size();
    stride *= view.shape[axis] + (last ? spec.memory.row_padding : 0);
  }
  return view;
}

void fill_operand(const ProblemSpec& spec, const OperandSpec& operand, const Tensor& tensor,
                  tensor::Random random) {
  const std::size_t rank = operand.axes.size();
  const std::int64_t columns = rank == 0 ? 1 : tensor.shape[rank - 1];
  const std::int64_t stride = rank == 0 ? 1 : tensor.strides[rank - 1];
  std::int64_t rows = 1;
  for (std::size_t axis = 0; axis + 1 < rank; ++axis) rows *= tensor.shape[axis];
  const std::int64_t limit =
      operand.limit != 0 ? operand.limit : std::max<std::int64_t>(spec.seqlen_kv, 1);
  std::vector<double> row(static_cast<std::size_t>(columns));
  for (std::int64_t n = 0; n < rows; ++n) {
    std::int64_t offset = 0, rest = n;
    for (std::size_t axis = rank < 2 ? 0 : rank - 1; axis-- > 0;) {
      offset += rest % tensor.shape[axis] * tensor.strides[axis];
      rest /= tensor.shape[axis];
    }
    for (std::int64_t c = 0; c < columns; ++c) {
      row[static_cast<std::size_t>(c)] =
          value_at(operand, limit, c, static_cast<std::uint64_t>(n * columns + c), random);
    }
    if (operand.fill == Fill::kSorted) std::ranges::sort(row);
    for (std::int64_t c = 0; c < columns; ++c) {
      tensor::store(tensor.data, tensor.dtype, offset + c * stride,
                    row[static_cast<std::size_t>(c)]);
    }
  }
}

}  // namespace attnjit::instance
