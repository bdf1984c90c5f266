#include "cli/input/manifest_members.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cstdint>
#include <iterator>
#include <limits>
#include <utility>

#include "base/json.hpp"
#include "cli/input/words.hpp"
#include "problem/problem.hpp"

namespace attnjit::cli {
namespace {

using base::Json;
using instance::ProblemSpec;
using Parsed = std::optional<MemberValue>;

constexpr std::int64_t kMaxSize = std::int64_t{1} << 40;  // beyond any tensor; keeps sums in range

std::optional<std::int64_t> integer(const Json& value, std::int64_t least) {
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > kMaxSize) return std::nullopt;
  const auto number = value.get<std::int64_t>();
  return number >= least ? std::optional(number) : std::nullopt;
}

template <std::int64_t ProblemSpec::*field, std::int64_t least>
Parsed size(const Json& value) {
  const auto number = integer(value, least);
  if (!number) return std::nullopt;
  return MemberValue{fmt::to_string(*number), [n = *number](ProblemSpec& s) { s.*field = n; }};
}

// [first, second], or one number for both.
template <std::int64_t ProblemSpec::*first, std::int64_t ProblemSpec::*second, std::int64_t least>
Parsed size_pair(const Json& value) {
  const bool both = value.is_array() && value.size() == 2;
  const auto a = integer(both ? value[0] : value, least);
  const auto b = integer(both ? value[1] : value, least);
  if (!a || !b) return std::nullopt;
  return MemberValue{fmt::format("{}/{}", *a, *b), [a = *a, b = *b](ProblemSpec& s) {
                       s.*first = a;
                       s.*second = b;
                     }};
}

Parsed window(const Json& value) {
  if (!value.is_array() || value.size() != 2) return std::nullopt;
  const auto left = integer(value[0], -1);
  const auto right = integer(value[1], -1);
  if (!left || !right) return std::nullopt;
  return MemberValue{fmt::format("{},{}", *left, *right),
                     [w = Window{*left, *right}](ProblemSpec& s) { s.window = w; }};
}

// A string out of a list of words.
template <class T, std::size_t N>
std::optional<std::pair<std::string, T>> word(const Json& value, const Word<T> (&words)[N]) {
  if (!value.is_string()) return std::nullopt;
  const auto found = find_word(words, value.get<std::string>());
  if (!found) return std::nullopt;
  return std::pair(value.get<std::string>(), *found);
}

Parsed dtype(const Json& value) {
  const auto w = word(value, kDtypes);
  if (!w) return std::nullopt;
  return MemberValue{w->first, [v = w->second](ProblemSpec& s) { s.dtype = v; }};
}
template <std::optional<DType> ProblemSpec::*field>
Parsed score_dtype(const Json& value) {
  const auto w = word(value, kBiasDtypes);
  if (!w) return std::nullopt;
  return MemberValue{w->first, [v = w->second](ProblemSpec& s) { s.*field = v; }};
}
Parsed layout(const Json& value) {
  const auto w = word(value, kLayouts);
  if (!w) return std::nullopt;
  return MemberValue{w->first, [v = w->second](ProblemSpec& s) { s.memory.layout = v; }};
}

Parsed causal(const Json& value) {
  if (value == false) return MemberValue{"false", [](ProblemSpec&) {}};
  const auto w = word(value, kDiagonals);
  if (!w) return std::nullopt;
  return MemberValue{w->first, [v = w->second](ProblemSpec& s) {
                       s.causal = true;
                       s.diagonal = v;
                     }};
}

Parsed diagonal(const Json& value) {
  const auto w = word(value, kDiagonals);
  if (!w) return std::nullopt;
  return MemberValue{w->first, [text = w->first, v = w->second](ProblemSpec& s) {
                       if (s.causal && s.diagonal != v) {
                         usage_error("diagonal: {} contradicts causal; leave diagonal out", text);
                       }
                       s.diagonal = v;
                     }};
}

template <std::int64_t ScoreOptions::*field>
Parsed offset(const Json& value) {
  const auto number = integer(value, -kMaxSize);
  if (!number) return std::nullopt;
  return MemberValue{fmt::to_string(*number), [n = *number](ProblemSpec& s) { s.*field = n; }};
}

// A broadcast pattern; the sizes it stands for are checked with the whole problem.
template <std::string ProblemSpec::*field>
Parsed pattern(const Json& value) {
  if (!value.is_string()) return std::nullopt;
  const auto text = value.get<std::string>();
  if (text == "none") return MemberValue{text, [](ProblemSpec&) {}};
  if (!instance::is_pattern(text)) return std::nullopt;
  return MemberValue{text, [text](ProblemSpec& s) { s.*field = text; }};
}

Parsed alibi(const Json& value) {
  if (value != "h" && value != "bh" && value != "none") return std::nullopt;
  const auto text = value.get<std::string>();
  return MemberValue{text, [text](ProblemSpec& s) { s.alibi = text == "none" ? "" : text; }};
}

Parsed tail_mask(const Json& value) {
  if (value != "b" && value != "1" && value != "none") return std::nullopt;
  const auto text = value.get<std::string>();
  return MemberValue{text, [text](ProblemSpec& s) { s.tail_mask = text == "none" ? "" : text; }};
}

Parsed mask_kind(const Json& value) {
  if (!value.is_string()) return std::nullopt;
  const auto text = value.get<std::string>();
  const auto kind = tensor::parse_mask_kind(with_dashes(text));
  if (!kind) return std::nullopt;
  return MemberValue{text, [k = *kind](ProblemSpec& s) { s.mask_kind = k; }};
}
Parsed bias_kind(const Json& value) {
  if (!value.is_string()) return std::nullopt;
  const auto text = value.get<std::string>();
  const auto kind = tensor::parse_bias_kind(with_dashes(text));
  if (!kind) return std::nullopt;
  return MemberValue{text, [k = *kind](ProblemSpec& s) { s.bias_kind = k; }};
}

Parsed mask_density(const Json& value) {
  if (!value.is_number()) return std::nullopt;
  const auto density = value.get<double>();
  if (!(density >= 0 && density <= 1)) return std::nullopt;
  return MemberValue{fmt::to_string(density),
                     [density](ProblemSpec& s) { s.mask_density = density; }};
}
template <std::size_t index>
Parsed scalar(const Json& value) {
  if (!value.is_number()) return std::nullopt;
  const auto number = value.get<float>();
  return MemberValue{fmt::to_string(number),
                     [number](ProblemSpec& s) { s.*problem::kScalars[index].given = number; }};
}
template <std::vector<std::int32_t> ProblemSpec::*field>
Parsed begins(const Json& value) {
  if (!value.is_array()) return std::nullopt;
  std::vector<std::int32_t> rows;
  for (const Json& each : value) {
    const auto row = integer(each, std::numeric_limits<std::int32_t>::min());
    if (!row || *row > std::numeric_limits<std::int32_t>::max()) return std::nullopt;
    if (!rows.empty() && *row < rows.back()) return std::nullopt;
    rows.push_back(static_cast<std::int32_t>(*row));
  }
  return MemberValue{fmt::format("{} sequences", rows.empty() ? 0 : rows.size() - 1),
                     [rows](ProblemSpec& s) { s.*field = rows; }};
}
template <bool ProblemSpec::*... fields>
Parsed flag(const Json& value) {
  if (!value.is_boolean()) return std::nullopt;
  const bool set = value.get<bool>();
  return MemberValue{set ? "true" : "false", [set](ProblemSpec& s) { ((s.*fields = set), ...); }};
}
template <std::string ProblemSpec::*field>
Parsed text(const Json& value) {
  if (!value.is_string()) return std::nullopt;
  const auto words = value.get<std::string>();
  return MemberValue{words, [words](ProblemSpec& s) { s.*field = words; }};
}
Parsed operands(const Json& value) {
  if (!value.is_array()) return std::nullopt;
  std::vector<instance::OperandSpec> list;
  for (const Json& each : value) {
    if (!each.is_string()) return std::nullopt;
    list.push_back(instance::parse_operand(each.get<std::string>()));
  }
  return MemberValue{fmt::format("{} operands", list.size()),
                     [list](ProblemSpec& s) { s.operands = list; }};
}
Parsed grad(const Json& value) {
  if (!value.is_array()) return std::nullopt;
  std::vector<std::string> names;
  for (const Json& each : value) {
    if (!each.is_string()) return std::nullopt;
    names.push_back(each.get<std::string>());
  }
  return MemberValue{fmt::format("grad of {}", fmt::join(names, ", ")),
                     [names](ProblemSpec& s) { s.grad = names; }};
}
Parsed seed(const Json& value) {
  const auto number = integer(value, 0);
  if (!number) return std::nullopt;
  return MemberValue{fmt::to_string(*number),
                     [n = *number](ProblemSpec& s) { s.seed = static_cast<std::uint64_t>(n); }};
}

constexpr std::string_view kPattern =
    "a pattern of four letters such as b11k, 1hqk, bgqk, shqk/2 or p1qk/64x1, or \"none\"";
using Spec = ProblemSpec;
constexpr Member kNamed[] = {
    {"dtype", false, false, "bf16 or fp16", dtype},
    {"batch", false, false, "an integer from 0", size<&Spec::batch, 0>},
    {"heads", true, true, "[query heads, kv heads], or one number for both, from 1",
     size_pair<&Spec::heads_q, &Spec::heads_kv, 1>},
    {"head_dim", true, false, "an integer from 1", size<&Spec::head_dim, 1>},
    {"head_dim_v", false, false, "an integer from 1", size<&Spec::head_dim_v, 1>},
    {"seqlens", true, true, "[queries, keys], or one number for both, from 0",
     size_pair<&Spec::seqlen_q, &Spec::seqlen_kv, 0>},
    {"causal", false, false, "false, \"bottom_right\" or \"top_left\"", causal},
    {"window", false, true, "[left, right], numbers of keys, -1 = open", window},
    {"diagonal", false, false, "\"bottom_right\" or \"top_left\"", diagonal},
    {"diagonal_offset", false, false, "an integer", offset<&Spec::diagonal_offset>},
    {"row_offset", false, false, "an integer", offset<&Spec::row_offset>},
    {"key_offset", false, false, "an integer", offset<&Spec::key_offset>},
    {"alibi", false, false, "\"h\", \"bh\" or \"none\"", alibi},
    {"mask", false, false, kPattern, pattern<&Spec::mask>},
    {"mask_kind", false, false,
     "random, suffix, scattered, blocks, dead-rows, dead-head, dead-batch, all-true, all-false, "
     "top-bias or band",
     mask_kind},
    {"mask_density", false, false, "a number from 0 to 1", mask_density},
    {"bias", false, false, kPattern, pattern<&Spec::bias>},
    {"bias_dtype", false, false, "bf16, fp16 or fp32", score_dtype<&Spec::bias_dtype>},
    {"bias_kind", false, false,
     "normal, minus-infinity, lowest, huge-logit, very-negative or graded", bias_kind},
    {"sink", false, false, "true or false", flag<&Spec::use_sink>},
    {"sink_dtype", false, false, "bf16, fp16 or fp32", score_dtype<&Spec::sink_dtype>},
    {"layout", false, false, "bhsd or bshd", layout},
    {"use_seqlens", false, false, "true or false",
     flag<&Spec::use_seqlens_q, &Spec::use_seqlens_kv>},
    {"packed", false, false, "true or false", flag<&Spec::packed>},
    {"cu_seqlens_q", false, true, "a list of integers that do not fall",
     begins<&Spec::cu_seqlens_q>},
    {"cu_seqlens_kv", false, true, "a list of integers that do not fall",
     begins<&Spec::cu_seqlens_kv>},
    {"score", false, false, "an expression", text<&Spec::score>},
    {"keep", false, false, "an expression", text<&Spec::keep>},
    {"operands", false, true, "a list of operands such as \"rel=fp32:h,257\"", operands},
    {"blocks", false, false, "lists of blocks such as \"random:0.2/64x128/bg\"",
     text<&Spec::blocks>},
    {"key_indices", false, false, "selected keys such as \"topk:2048/bg/int64\"",
     text<&Spec::key_indices>},
    {"row_max", false, false, "true or false", flag<&Spec::want_row_max>},
    {"max_logits", false, false, "true or false", flag<&Spec::want_max_logits>},
    {"page_size", false, false, "an integer from 0", size<&Spec::page_size, 0>},
    {"shared_pages", false, false, "an integer from 0", size<&Spec::shared_pages, 0>},
    {"tail_mask", false, false, "\"b\", \"1\" or \"none\"", tail_mask},
    {"seed", false, false, "an integer from 0", seed},
    {"dbias", false, false, "true or false", flag<&Spec::want_dbias>, true},
    {"dbias_dtype", false, false, "bf16, fp16 or fp32", score_dtype<&Spec::dbias_dtype>, true},
    {"dsink", false, false, "true or false", flag<&Spec::want_dsink>, true},
    {"grad", false, true, "a list of names of operands", grad, true},
    {"dlse", false, false, "true or false", flag<&Spec::want_dlse>, true},
    {"deterministic", false, false, "true or false", flag<&Spec::deterministic>, true},
    {"prepared_mask", false, false, "true or false", flag<&Spec::prepare_mask>},
};

template <std::size_t... named, std::size_t... scalars>
constexpr auto all_members(std::index_sequence<named...>, std::index_sequence<scalars...>) {
  return std::array{kNamed[named]..., Member{problem::kScalars[scalars].name, false, false,
                                             "a number", scalar<scalars>}...};
}
constexpr auto kMembers = all_members(std::make_index_sequence<std::size(kNamed)>(),
                                      std::make_index_sequence<std::size(problem::kScalars)>());

}  // namespace

std::span<const Member> members() { return kMembers; }

}  // namespace attnjit::cli
