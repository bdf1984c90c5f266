#include "expr/int_range.hpp"

#include <algorithm>
#include <bit>
#include <optional>

#include "attnjit/error.hpp"

namespace attnjit::expr {
namespace {

__extension__ using Wide = __int128;

constexpr std::int64_t kLowest64 = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kHighest64 = std::numeric_limits<std::int64_t>::max();

// Every int, where the exact results do not fit and therefore wrap.
IntRange fitted(Wide low, Wide high) {
  if (low < kLowest64 || high > kHighest64) return {};
  return {static_cast<std::int64_t>(low), static_cast<std::int64_t>(high)};
}

// The exact results of a function that is monotonic in each argument while the other stands.
template <class F>
IntRange of_corners(IntRange x, IntRange y, F f) {
  const auto [low, high] =
      std::minmax({f(x.first, y.first), f(x.first, y.last), f(x.last, y.first), f(x.last, y.last)});
  return fitted(low, high);
}

std::optional<IntRange> common(IntRange a, IntRange b) {
  const IntRange both{std::max(a.first, b.first), std::min(a.last, b.last)};
  return both.first <= both.last ? std::optional(both) : std::nullopt;
}

void add_to(std::optional<IntRange>& all, IntRange more) { all = all ? hull(*all, more) : more; }

IntRange quotients(IntRange x, IntRange y) {
  std::optional<IntRange> all;
  const auto quotient = [](std::int64_t a, std::int64_t b) {
    return b == -1 ? -Wide{a} : Wide{floor_quotient(a, b)};
  };
  for (const IntRange sign : {IntRange{kLowest64, -1}, IntRange{1, kHighest64}}) {
    if (const auto part = common(y, sign)) add_to(all, of_corners(x, *part, quotient));
  }
  if (y.contains(0)) add_to(all, {0, 0});
  return *all;
}

// Remainders by y > 0.
IntRange positive_remainders(IntRange x, IntRange y) {
  if (y.is_one() && floor_quotient(x.first, y.first) == floor_quotient(x.last, y.first)) {
    return {floor_remainder(x.first, y.first), floor_remainder(x.last, y.first)};
  }
  if (x.first >= 0 && x.last < y.first) return x;
  return {0, x.first >= 0 ? std::min(x.last, y.last - 1) : y.last - 1};
}

IntRange mirrored(IntRange x) { return fitted(-Wide{x.last}, -Wide{x.first}); }

// x % -y == -(-x % y)
IntRange remainders(IntRange x, IntRange y) {
  std::optional<IntRange> all;
  if (const auto part = common(y, {1, kHighest64})) add_to(all, positive_remainders(x, *part));
  if (const auto part = common(y, {kLowest64, -1})) {
    const bool has_negatives = x.first > kLowest64 && part->first > kLowest64;
    add_to(all, has_negatives
                    ? mirrored(positive_remainders(mirrored(x), mirrored(*part)))
                    : IntRange{part->first == kLowest64 ? kLowest64 : part->first + 1, 0});
  }
  if (y.contains(0)) add_to(all, x);
  return *all;
}

// Ints between -2^k and 2^k - 1, for the least k that has room for all of `x` and `y`: & | and ^ of
// such ints are such ints.
IntRange with_all_bits(IntRange x, IntRange y) {
  std::uint64_t bits = 0;
  for (const std::int64_t end : {x.first, x.last, y.first, y.last}) {
    bits |= static_cast<std::uint64_t>(end < 0 ? ~end : end);
  }
  const auto width = static_cast<int>(std::bit_width(bits));
  const auto last = static_cast<std::int64_t>(width >= 63 ? static_cast<std::uint64_t>(kHighest64)
                                                          : (std::uint64_t{1} << width) - 1);
  return {x.first >= 0 && y.first >= 0 ? 0 : -last - 1, last};
}

IntRange bit_ands(IntRange x, IntRange y) {
  IntRange all = with_all_bits(x, y);
  for (const auto& [a, b] : {std::pair{x, y}, std::pair{y, x}}) {
    if (b.first < 0) continue;
    // A mask of the lowest bits is a remainder.
    const bool is_low_mask = b.is_one() && b.first < kHighest64 && (b.first & (b.first + 1)) == 0;
    if (is_low_mask) return positive_remainders(a, {b.first + 1, b.first + 1});
    all = {0, std::min(all.last, b.last)};
  }
  return all;
}

IntRange bit_ors(Op op, IntRange x, IntRange y) {
  IntRange all = with_all_bits(x, y);
  if (op == Op::kBitOr && all.first == 0) all.first = std::max(x.first, y.first);
  return all;
}

IntRange shifts(Op op, IntRange x, IntRange count) {
  const IntRange bits{std::clamp<std::int64_t>(count.first, 0, 63),
                      std::clamp<std::int64_t>(count.last, 0, 63)};
  if (op == Op::kShiftRight) {
    return of_corners(x, bits, [](std::int64_t a, std::int64_t n) { return Wide{a >> n}; });
  }
  return of_corners(x, bits,
                    [](std::int64_t a, std::int64_t n) { return Wide{a} * (Wide{1} << n); });
}

IntRange absolute(IntRange x) {
  if (x.first >= 0) return x;
  if (x.last <= 0) return mirrored(x);
  const IntRange other = mirrored(x);
  return other == IntRange{} ? other : IntRange{0, std::max(x.last, other.last)};
}

IntRange smallest(IntRange x, IntRange y) {
  return {std::min(x.first, y.first), std::min(x.last, y.last)};
}
IntRange largest(IntRange x, IntRange y) {
  return {std::max(x.first, y.first), std::max(x.last, y.last)};
}

}  // namespace

IntRange hull(IntRange a, IntRange b) {
  return {std::min(a.first, b.first), std::max(a.last, b.last)};
}

IntRange int_range_of(const FloatRange& floats) {
  const IntRange ints{saturated_int32(floats.low), saturated_int32(floats.high)};
  return floats.may_be_nan ? hull(ints, {0, 0}) : ints;
}

IntRange apply_range(Op op, std::span<const IntRange> args) {
  const IntRange x = args[0], y = args.size() > 1 ? args[1] : IntRange{};
  switch (op) {
    case Op::kNegate:
      return mirrored(x);
    case Op::kAbs:
      return absolute(x);
    case Op::kAdd:
      return fitted(Wide{x.first} + y.first, Wide{x.last} + y.last);
    case Op::kSubtract:
      return fitted(Wide{x.first} - y.last, Wide{x.last} - y.first);
    case Op::kMultiply:
      return of_corners(x, y, [](std::int64_t a, std::int64_t b) { return Wide{a} * b; });
    case Op::kFloorDivide:
      return quotients(x, y);
    case Op::kModulo:
      return remainders(x, y);
    case Op::kBitAnd:
      return bit_ands(x, y);
    case Op::kBitOr:
    case Op::kBitXor:
      return bit_ors(op, x, y);
    case Op::kShiftLeft:
    case Op::kShiftRight:
      return shifts(op, x, y);
    case Op::kMin:
      return smallest(x, y);
    case Op::kMax:
      return largest(x, y);
    case Op::kClamp:
      return smallest(largest(x, y), args[2]);
    default:
      throw Error(ErrorKind::kInternal, "an operation whose ranges of ints are unknown");
  }
}

}  // namespace attnjit::expr
