#include "instance/key_indices_spec.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <utility>
#include <vector>

#include "attnjit/error.hpp"
#include "base/printable.hpp"
#include "instance/problem_spec.hpp"
#include "instance/take.hpp"
#include "tensor/half.hpp"

namespace attnjit::instance {
namespace {

[[noreturn]] void refuse_indices(std::string_view text, std::string_view why) {
  throw Error(ErrorKind::kInvalidProblem,
              fmt::format("key_indices '{}': {}; expected topk:NUMBER[/AXES[/DTYPE]], such as "
                          "topk:2048 or topk:2048/1g/int64",
                          base::excerpt(text), why));
}

}  // namespace

KeyIndicesSpec parse_key_indices(std::string_view text) {
  KeyIndicesSpec spec;
  std::string_view rest = text;
  std::string_view fill = take(rest, '/');
  const std::string_view kind = take(fill, ':');
  if (kind != "topk" && kind != "faulty") {
    refuse_indices(text, fmt::format("fill '{}' is none of topk, faulty", base::excerpt(kind)));
  }
  spec.is_faulty = kind == "faulty";
  constexpr std::int64_t kMost = std::int64_t{1} << 29;
  const auto [stop, error] = std::from_chars(fill.data(), fill.data() + fill.size(), spec.number);
  if (error != std::errc{} || stop != fill.data() + fill.size() || spec.number < 0 ||
      spec.number > kMost) {
    refuse_indices(text, fmt::format("'{}' is no number from 0 to {}", base::excerpt(fill), kMost));
  }
  if (rest.empty()) return spec;
  const std::string_view axes = take(rest, '/');
  if (axes.size() != 2 || (axes[0] != 'b' && axes[0] != '1') ||
      (axes[1] != 'g' && axes[1] != '1')) {
    refuse_indices(text,
                   fmt::format("axes '{}' are not b or 1 and then g or 1", base::excerpt(axes)));
  }
  spec.axes = axes;
  if (rest == "int64") {
    spec.dtype = DType::kInt64;
  } else if (!rest.empty() && rest != "int32") {
    refuse_indices(text, fmt::format("dtype '{}' is none of int32, int64", base::excerpt(rest)));
  }
  return spec;
}

Tensor key_indices_view(const ProblemSpec& spec) {
  const KeyIndicesSpec indices = parse_key_indices(spec.key_indices);
  const std::int64_t batches = indices.axes[0] == 'b' ? spec.batch : 1;
  const std::int64_t heads = indices.axes[1] == 'g' ? spec.heads_kv : 1;
  const std::int64_t line = indices.number + spec.memory.row_padding;
  return {
      nullptr, indices.dtype, {batches, heads, 1, indices.number}, {heads * line, line, line, 1}};
}

void fill_key_indices(const Tensor& indices, std::int64_t num_keys, bool is_faulty,
                      tensor::Random random) {
  const auto& [batches, heads, one, number] = indices.shape;
  std::uint64_t draw = 0;
  for (std::int64_t line = 0; line < batches * heads; ++line) {
    std::vector<std::int64_t> keys(static_cast<std::size_t>(num_keys));
    std::iota(keys.begin(), keys.end(), 0);
    keys.resize(static_cast<std::size_t>(std::max(num_keys, number)), -1);
    // A shuffle of as many as are taken (Fisher and Yates).
    for (std::int64_t n = 0; n < std::min(num_keys, number); ++n) {
      const std::int64_t other = n + random.below(draw++, num_keys - n);
      std::swap(keys[static_cast<std::size_t>(n)], keys[static_cast<std::size_t>(other)]);
    }
    for (std::int64_t n = 0; n < number; ++n) {
      std::int64_t key = keys[static_cast<std::size_t>(n)];
      const bool is_wide = indices.dtype == DType::kInt64;
      const std::int64_t none[] = {-1, num_keys, is_wide ? -(std::int64_t{1} << 32) : -num_keys};
      if (is_faulty && n % 7 == 3) key = none[n / 7 % 3];
      if (is_faulty && n % 5 == 4) key = keys[static_cast<std::size_t>(n / 2)];
      const std::int64_t at = line / heads * indices.strides[0] +
                              line % heads * indices.strides[1] + n * indices.strides[3];
      tensor::store(indices.data, indices.dtype, at, static_cast<double>(key));
    }
  }
}

}  // namespace attnjit::instance
