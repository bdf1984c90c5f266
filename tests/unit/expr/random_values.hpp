#pragma once
// Elements of operands and points for random expressions.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "expr/interval.hpp"
#include "unit/expr/random_expression.hpp"

namespace attnjit::expr::test {

/// Elements of the operands of an expression, functions of their places.
class RandomValues {
 public:
  /// `has_specials`: floats may be NaN, infinite or -0.0, ints any int32.
  RandomValues(const Expr& e, std::uint64_t seed, bool has_specials) : has_specials_(has_specials) {
    for (const OperandDeclaration& operand : e.operands()) {
      const std::uint64_t own = seed * 977 + readers_.size();
      readers_.push_back({{3, 4, 5, 2}, [this, own, type = operand.type](const Places& place) {
                            return element(own, type, place);
                          }});
    }
  }
  RandomValues(const RandomValues&) = delete;
  RandomValues& operator=(const RandomValues&) = delete;

  const std::vector<OperandReader>& readers() const { return readers_; }

  /// The ranges of the same elements, by looking at each.
  std::vector<OperandRanges> ranges() const {
    std::vector<OperandRanges> all;
    for (const OperandReader& reader : readers_) {
      all.push_back({reader.shape, [&reader](std::span<const IntRange> indices) {
                       return range_of(reader, indices);
                     }});
    }
    return all;
  }

  static Range range_of(const OperandReader& reader, std::span<const IntRange> indices) {
    Places place{}, first{}, last{};
    for (std::size_t n = 0; n < indices.size(); ++n) {
      place[n] = first[n] = indices[n].first;
      last[n] = indices[n].last;
    }
    bool is_first = true;
    Range all;
    for (;;) {
      const Value value = reader.read(place);
      const bool is_nan = std::isnan(value.number);
      const Range one = value.type == Type::kFloat
                            ? Range::of(FloatRange{value.number, value.number, false})
                            : Range{value.type, {value.integer, value.integer}, {}};
      if (is_first) {
        all = one;
        if (is_nan) all = Range::of(FloatRange{0, 0, true});
      } else if (value.type == Type::kFloat) {
        if (is_nan) {
          all.floats.may_be_nan = true;
        } else {
          all.floats = {std::min(all.floats.low, value.number),
                        std::max(all.floats.high, value.number), all.floats.may_be_nan};
        }
      } else {
        all.ints = {std::min(all.ints.first, value.integer),
                    std::max(all.ints.last, value.integer)};
      }
      is_first = false;
      std::size_t n = 0;
      while (n < indices.size() && ++place[n] > last[n]) {
        place[n] = first[n];
        ++n;
      }
      if (n == indices.size()) return all;
    }
  }

 private:
  Value element(std::uint64_t seed, Type type, const Places& place) const {
    std::uint64_t sum = seed + 0x9e3779b97f4a7c15u;
    for (const std::int64_t index : place) {
      sum = (sum ^ static_cast<std::uint64_t>(index + 1)) * 0xbf58476d1ce4e5b9u;
      sum ^= sum >> 31;
    }
    if (type == Type::kBool) return Value::of((sum & 4) != 0);
    const auto number = static_cast<std::int64_t>(sum % 61) - 30;
    if (type == Type::kInt) {
      if (has_specials_ && sum % 7 == 0)
        return Value::of(static_cast<std::int64_t>(static_cast<std::int32_t>(sum >> 8)));
      return Value::of(number);
    }
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    constexpr double kSpecials[] = {std::numeric_limits<double>::quiet_NaN(), kInfinity, -kInfinity,
                                    -0.0, 0.0};
    if (has_specials_ && sum % 5 == 0) return Value::of(kSpecials[sum / 5 % 5]);
    return Value::of(static_cast<double>(number) / 8);
  }

  bool has_specials_;
  std::vector<OperandReader> readers_;
};

/// The readers of `readers`, which are those of `whole`, for the operands of another expression.
inline std::vector<OperandReader> readers_of(const Expr& other, const Expr& whole,
                                             const std::vector<OperandReader>& readers) {
  std::vector<OperandReader> own;
  for (const OperandDeclaration& operand : other.operands()) {
    const auto place = std::ranges::find(whole.operands(), operand) - whole.operands().begin();
    own.push_back(readers[static_cast<std::size_t>(place)]);
  }
  return own;
}

/// Small indices, or any int32 where `is_wide`, and a score.
inline Environment random_point(RandomExpressions& random, const RandomValues& values,
                                bool is_wide = false) {
  Environment environment;
  for (std::int64_t& index : environment.indices.of) {
    index = is_wide && random.once_in(3)
                ? random.between(-(std::int64_t{1} << 31), (std::int64_t{1} << 31) - 1)
                : random.between(-3, 40);
  }
  environment.score = static_cast<double>(random.between(-400, 400)) / 64;
  environment.operands = values.readers();
  return environment;
}

/// Whether two values are the same: of floats all bits, or both NaN.
inline bool same_value(const Value& a, const Value& b) {
  if (a.type != b.type) return false;
  if (a.type != Type::kFloat) return a.integer == b.integer;
  if (std::isnan(a.number) || std::isnan(b.number))
    return std::isnan(a.number) && std::isnan(b.number);
  return a.number == b.number && std::signbit(a.number) == std::signbit(b.number);
}

}  // namespace attnjit::expr::test
