#pragma once
#include <cstdint>

namespace attnjit::tensor {

/// A random function rather than a sequence: the value at `index` depends on the seed and the index
/// alone, so that threads, layouts and machines agree.
class Random {
 public:
  // Mixed twice: with one pass, seed a at index b would equal seed b at index a.
  explicit constexpr Random(std::uint64_t seed) : key_(mix(mix(seed))) {}

  /// An independent generator, e.g. one per tensor.
  constexpr Random stream(std::uint64_t tag) const { return Random(key_ ^ mix(~tag)); }

  constexpr std::uint64_t bits(std::uint64_t index) const { return mix(mix(index) + key_); }

  /// In [0, 1), 53 random bits.
  constexpr double uniform(std::uint64_t index) const {
    return static_cast<double>(bits(index) >> 11) * 0x1p-53;
  }

  /// An integer in [0, bound); bound > 0 and far below 2^53.
  constexpr std::int64_t below(std::uint64_t index, std::int64_t bound) const {
    return static_cast<std::int64_t>(uniform(index) * static_cast<double>(bound));
  }

  /// Normally distributed, mean 0 and variance 1; never infinite.
  double normal(std::uint64_t index) const;

 private:
  // The finaliser of SplitMix64: a bijection of 64 bits in which each input bit flips half of the
  // output's.
  static constexpr std::uint64_t mix(std::uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }

  std::uint64_t key_;
};

}  // namespace attnjit::tensor
