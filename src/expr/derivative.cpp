#include "expr/derivative.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>

#include "attnjit/error.hpp"
#include "expr/simplifier.hpp"

namespace attnjit::expr {
namespace {

/// Derivatives of all nodes by one of them, from the arguments on ("forward mode": A. Griewank and
/// A. Walther, Evaluating Derivatives, 2nd ed., section 3.1). A choice stays one between
/// derivatives, so that the other side is not computed.
class Tangents {
 public:
  explicit Tangents(const Expr& e) : e_(e), make_(graph_), values_(graph_.import(e)) {}

  Expr by(int variable) {
    tangents_.assign(e_.nodes().size(), std::nullopt);
    for (int place = 0; place <= e_.root(); ++place) {
      tangents_[static_cast<std::size_t>(place)] =
          place == variable ? Tangent(constant(1)) : tangent(e_.node(place));
    }
    const Tangent root = tangents_.back();
    return graph_.finish(root ? *root : constant(0));
  }

 private:
  using Tangent = std::optional<int>;  // nothing where it is 0 whatever the values are

  int constant(float value) { return graph_.add(literal(value)); }
  int add(Op op, std::initializer_list<int> args) { return make_.make(op, args); }
  int value(int place) const { return values_[static_cast<std::size_t>(place)]; }
  Tangent tangent_of(int place) const { return tangents_[static_cast<std::size_t>(place)]; }

  Tangent sum(Tangent a, Tangent b) {
    if (!a || !b) return a ? a : b;
    return add(Op::kAdd, {*a, *b});
  }
  Tangent times(Tangent a, int factor) {
    return a ? Tangent(scaled(*a, Op::kMultiply, factor)) : std::nullopt;
  }
  Tangent over(Tangent a, int divisor) {
    return a ? Tangent(scaled(*a, Op::kDivide, divisor)) : std::nullopt;
  }
  Tangent negative(Tangent a) { return a ? Tangent(add(Op::kNegate, {*a})) : std::nullopt; }
  Tangent choose(int condition, Tangent a, Tangent b) {
    if (!a && !b) return std::nullopt;
    return add(Op::kSelect, {condition, a ? *a : constant(0), b ? *b : constant(0)});
  }

  bool is_linear(const Node& node) const;
  bool is_harmless(int factor) const;
  bool has_choice(int place);
  int scaled(int place, Op op, int factor);

  Tangent tangent(const Node& node);
  Tangent of_function(const Node& node, Tangent dx);
  Tangent of_quotient(const Node& node);
  Tangent of_extremum(const Node& node);
  Tangent of_clamp(const Node& node);

  const Expr& e_;
  Graph graph_;
  Simplifier make_;
  std::vector<int> values_;        // the nodes of e_ in graph_
  std::vector<Tangent> tangents_;  // their derivatives there
  std::unordered_map<int, bool> has_choice_;
  std::map<std::tuple<int, Op, int>, int> scaled_;  // so that shared choices stay shared
};

// Whether a node is linear in its first argument, and in the second of a sum.
bool Tangents::is_linear(const Node& node) const {
  if (node.is(Op::kAdd) || node.is(Op::kSubtract) || node.is(Op::kNegate)) return true;
  return (node.is(Op::kMultiply) || node.is(Op::kDivide)) && is_harmless(node.args[1]);
}

// Whether 0 times (or over) this is 0.
bool Tangents::is_harmless(int factor) const {
  const Node& node = graph_[factor];
  return node.is(Op::kLiteral) && std::isfinite(float_value(node)) && float_value(node) != 0;
}

// Whether there is a choice among the terms of a derivative.
bool Tangents::has_choice(int place) {
  if (const auto known = has_choice_.find(place); known != has_choice_.end()) return known->second;
  const Node node = graph_[place];
  const bool has = node.is(Op::kSelect) ||
                   (is_linear(node) && std::ranges::any_of(node.arguments(), [&](int arg) {
                      return has_choice(arg);
                    }));
  return has_choice_[place] = has;
}

// A derivative times, or divided by, a factor. It goes into the sides of a choice, where 0 stays 0:
// of sqrt(max(s, 0.0)) the derivative at s < 0 is 0, not 0 / 0.
int Tangents::scaled(int place, Op op, int factor) {
  const Node node = graph_[place];
  if (is_literal(node, 0.f)) return place;
  if (is_harmless(factor) || !has_choice(place)) return add(op, {place, factor});
  const auto key = std::tuple(place, op, factor);
  if (const auto known = scaled_.find(key); known != scaled_.end()) return known->second;
  const auto inside = [&](int arg) {
    return scaled(node.args[static_cast<std::size_t>(arg)], op, factor);
  };
  int result = 0;
  if (node.is(Op::kSelect)) {
    result = add(Op::kSelect, {node.args[0], inside(1), inside(2)});
  } else if (node.is(Op::kNegate)) {
    result = add(Op::kNegate, {inside(0)});
  } else {
    const bool is_sum = node.is(Op::kAdd) || node.is(Op::kSubtract);
    result = add(node.op, {inside(0), is_sum ? inside(1) : node.args[1]});
  }
  return scaled_[key] = result;
}

Tangents::Tangent Tangents::tangent(const Node& node) {
  if (node.type != Type::kFloat || node.num_args == 0 || node.is(Op::kRead)) return std::nullopt;
  const Tangent dx = tangent_of(node.args[0]), dy = tangent_of(node.args[1]);
  switch (node.op) {
    case Op::kAdd:
      return sum(dx, dy);
    case Op::kSubtract:
      return dx && dy ? Tangent(add(Op::kSubtract, {*dx, *dy})) : dx ? dx : negative(dy);
    case Op::kMultiply:
      return sum(times(dx, value(node.args[1])), times(dy, value(node.args[0])));
    case Op::kDivide:
      return of_quotient(node);
    case Op::kMin:
    case Op::kMax:
      return of_extremum(node);
    case Op::kClamp:
      return of_clamp(node);
    case Op::kSelect:
      return choose(value(node.args[0]), dy, tangent_of(node.args[2]));
    default:
      return of_function(node, dx);
  }
}

Tangents::Tangent Tangents::of_function(const Node& node, Tangent dx) {
  if (!dx) return std::nullopt;
  const int x = value(node.args[0]);
  const auto result = [&] { return add(node.op, {x}); };
  switch (node.op) {
    case Op::kNegate:
      return negative(dx);
    case Op::kAbs: {
      const int zero = constant(0);
      return choose(add(Op::kGreater, {x, zero}), dx,
                    choose(add(Op::kLess, {x, zero}), negative(dx), std::nullopt));
    }
    case Op::kExp:
      return times(dx, result());
    case Op::kLog:
      return over(dx, x);
    case Op::kTanh: {
      const int y = result();
      return times(dx, add(Op::kSubtract, {constant(1), add(Op::kMultiply, {y, y})}));
    }
    case Op::kSigmoid: {
      const int y = result();
      return times(dx, add(Op::kMultiply, {y, add(Op::kSubtract, {constant(1), y})}));
    }
    case Op::kSqrt:
      return over(dx, add(Op::kMultiply, {constant(2), result()}));
    case Op::kFloor:
    case Op::kToFloat:
      return std::nullopt;
    default:
      throw Error(ErrorKind::kInternal, "an operation without a derivative");
  }
}

// x / y: dx / y - x / y / y * dy
Tangents::Tangent Tangents::of_quotient(const Node& node) {
  const int x = value(node.args[0]), y = value(node.args[1]);
  const Tangent dx = tangent_of(node.args[0]), dy = tangent_of(node.args[1]);
  const Tangent first = over(dx, y);
  const Tangent second = times(dy, dy ? add(Op::kDivide, {add(Op::kDivide, {x, y}), y}) : y);
  if (first && second) return add(Op::kSubtract, {*first, *second});
  return first ? first : negative(second);
}

Tangents::Tangent Tangents::of_extremum(const Node& node) {
  const int x = value(node.args[0]), y = value(node.args[1]);
  const Tangent dx = tangent_of(node.args[0]), dy = tangent_of(node.args[1]);
  if (!dx && !dy) return std::nullopt;
  const Op wins = node.is(Op::kMin) ? Op::kLess : Op::kGreater;
  return choose(add(Op::kEqual, {x, y}), times(sum(dx, dy), constant(0.5f)),
                choose(add(wins, {x, y}), dx, dy));
}

// As PyTorch's clamp_backward and clamp_backward_min_max: the value has the bounds, and of a bound
// above the other the upper one holds.
Tangents::Tangent Tangents::of_clamp(const Node& node) {
  const int x = value(node.args[0]), low = value(node.args[1]), high = value(node.args[2]);
  const Tangent dx = tangent_of(node.args[0]);
  const Tangent dlow = tangent_of(node.args[1]), dhigh = tangent_of(node.args[2]);
  if (!dx && !dlow && !dhigh) return std::nullopt;
  const auto both = [&](int a, int b) { return add(Op::kAnd, {a, b}); };
  const int inside = both(add(Op::kGreaterEqual, {x, low}), add(Op::kLessEqual, {x, high}));
  const int above = add(Op::kOr, {add(Op::kGreater, {x, high}), add(Op::kLess, {high, low})});
  const int below = both(add(Op::kLess, {low, high}), add(Op::kLess, {x, low}));
  return choose(inside, dx, choose(below, dlow, choose(above, dhigh, std::nullopt)));
}

void expect_float(const Expr& e) {
  if (e.type() != Type::kFloat) {
    throw Error(ErrorKind::kInternal, "a derivative of what is no float");
  }
}

}  // namespace

Expr derivative(const Expr& e, int by) {
  expect_float(e);
  return Tangents(e).by(by);
}

Expr derivative_by_score(const Expr& e) {
  const auto found =
      std::ranges::find_if(e.nodes(), [](const Node& n) { return n.is(Op::kScore); });
  expect_float(e);
  return found == e.nodes().end() ? Expr(0.f)
                                  : Tangents(e).by(static_cast<int>(found - e.nodes().begin()));
}

std::vector<ReadSite> read_sites(const Expr& e) {
  std::vector<ReadSite> sites;
  expect_float(e);
  Tangents tangents(e);
  for (int place = 0; place <= e.root(); ++place) {
    const Node& node = e.node(place);
    if (!node.is(Op::kRead) || node.type != Type::kFloat) continue;
    Expr factor = tangents.by(place);
    if (is_literal(factor.top(), 0.f)) continue;
    sites.push_back({e.operands()[static_cast<std::size_t>(node.operand)].name, part(e, place),
                     std::move(factor)});
  }
  return sites;
}

}  // namespace attnjit::expr
