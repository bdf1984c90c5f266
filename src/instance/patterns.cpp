// The axes of a mask or bias, as text.
#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "attnjit/error.hpp"
#include "base/printable.hpp"
#include "instance/problem_spec.hpp"
#include "instance/sequences.hpp"

namespace attnjit::instance {
namespace {

[[noreturn]] void refuse_pattern(std::string_view what, std::string_view pattern,
                                 const std::string& why) {
  throw Error(ErrorKind::kInvalidProblem,
              fmt::format("{}: pattern '{}'{}", what, base::excerpt(pattern), why));
}

struct Pattern {
  std::string_view letters;  // four of them
  std::int64_t planes = 0;   // over the batch, of those that begin with s or p
  PlaneOrder order = {};     // of those that begin with p
};

// Takes a number of 1 or more off the front of `text`, behind `mark`. Whether there was one.
bool take_number(std::string_view& text, char mark, std::int64_t& number) {
  if (!text.starts_with(mark)) return false;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data() + 1, end, number);
  text.remove_prefix(static_cast<std::size_t>(rest - text.data()));
  return error == std::errc{} && number >= 1;
}

std::optional<Pattern> read_pattern(std::string_view text) {
  static constexpr std::string_view kLetters[] = {"bsp1", "hg1", "q1", "kt1"};
  if (text.size() < 4) return std::nullopt;
  Pattern pattern{text.substr(0, 4)};
  for (std::size_t axis = 0; axis < 4; ++axis) {
    if (kLetters[axis].find(text[axis]) == std::string_view::npos) return std::nullopt;
  }
  const bool repeats = text[0] == 'p', groups = repeats || text[0] == 's';
  text.remove_prefix(4);
  if (groups && !take_number(text, '/', pattern.planes)) return std::nullopt;
  if (repeats && !take_number(text, 'x', pattern.order.inner)) return std::nullopt;
  if (repeats && !text.empty() && !take_number(text, 'x', pattern.order.cycle)) return std::nullopt;
  return text.empty() ? std::optional(pattern) : std::nullopt;
}

}  // namespace

bool is_pattern(std::string_view text) { return read_pattern(text).has_value(); }

PlaneOrder pattern_order(std::string_view pattern) {
  const auto read = read_pattern(pattern);
  return read && read->planes > 1 ? read->order : PlaneOrder{};
}

std::array<std::int64_t, 4> pattern_shape(const ProblemSpec& spec, std::string_view pattern,
                                          std::string_view what) {
  const auto read = read_pattern(pattern);
  if (!read) {
    refuse_pattern(what, pattern,
                   "; expected four letters such as bhqk, 1hqk, bgqk, b11k, shqk/2 or p1qk/64x1");
  }
  const auto& [letters, planes, order] = *read;
  if (planes > 0 && spec.batch % planes != 0) {
    refuse_pattern(
        what, pattern,
        fmt::format(" has {} planes over the batch; expected a divisor of {}", planes, spec.batch));
  }
  if (order.inner > 0 && spec.batch / planes % order.inner != 0) {
    refuse_pattern(what, pattern,
                   fmt::format(" has planes for {} neighbours; expected a divisor of {}, the batch "
                               "by the planes",
                               order.inner, spec.batch / planes));
  }
  if (order.cycle > 0 && planes % order.cycle != 0) {
    refuse_pattern(
        what, pattern,
        fmt::format(" has a cycle of {} planes; expected a divisor of {}", order.cycle, planes));
  }
  const bool packs_keys = letters[3] == 't';
  const bool in_one_row = spec.packed && !spec.paged() && letters[0] == '1' && letters[2] == '1';
  if (packs_keys && !in_one_row) {
    refuse_pattern(what, pattern,
                   " has the keys of all sequences; expected 1h1t, 1g1t or 111t, packed, of keys "
                   "without pages");
  }
  const auto [queries, keys] = operand_sizes(spec);
  return {planes > 0          ? planes
          : letters[0] == 'b' ? spec.batch
                              : 1,
          letters[1] == 'h'   ? spec.heads_q
          : letters[1] == 'g' ? spec.heads_kv
                              : 1,
          letters[2] == 'q' ? queries : 1,
          packs_keys          ? spec.seqlen_kv
          : letters[3] == 'k' ? keys
                              : 1};
}

}  // namespace attnjit::instance
