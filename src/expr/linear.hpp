#pragma once
#include <cstdint>
#include <optional>

#include "expr/simplifier.hpp"

namespace attnjit::expr {

/// row * i + key * j + rest, where the rest is free of i and j. A rest that is 0 is absent.
struct Linear {
  std::int64_t row = 0;
  std::int64_t key = 0;
  std::optional<int> rest;
};

/// Reads ints of a graph as linear functions of i and j.
class LinearForms {
 public:
  explicit LinearForms(Graph& graph) : graph_(graph), make_(graph) {}

  /// The int at `place`; nothing if it is not linear, or if a factor is not -1, 0 or 1, or if its
  /// sum could wrap while indices and elements of operands are int32.
  std::optional<Linear> of(int place);

  /// a - b.
  Linear difference(const Linear& a, const Linear& b);

 private:
  std::optional<Linear> form(int place);
  Linear negative(const Linear& a);
  std::optional<int> sum(std::optional<int> a, std::optional<int> b);

  Graph& graph_;
  Simplifier make_;
};

}  // namespace attnjit::expr
