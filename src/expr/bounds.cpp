#include "expr/bounds.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "attnjit/error.hpp"
#include "expr/interval.hpp"
#include "expr/linear.hpp"
#include "expr/simplify.hpp"

namespace attnjit::expr {
namespace {

constexpr Uses kKeyUses = use_of(Index::kBatch) | use_of(Index::kHeadKv) | use_of(Index::kKey) |
                          use_of(Index::kOffset) | use_of(Index::kNumQueries) |
                          use_of(Index::kNumKeys) | kUsesOffsets;

// The places of terms whose conjunction is `place`, or its negation.
void split(Graph& graph, Simplifier& make, int place, bool negated, std::vector<int>& terms) {
  const Node node = graph[place];
  if (node.is(Op::kNot)) {
    split(graph, make, node.args[0], !negated, terms);
  } else if (node.is(negated ? Op::kOr : Op::kAnd)) {
    split(graph, make, node.args[0], negated, terms);
    split(graph, make, node.args[1], negated, terms);
  } else {
    const int term = negated ? make.make(Op::kNot, {place}) : place;
    if (!is_literal(graph[term], true)) terms.push_back(term);
  }
}

// a >= b is b <= a, and a < b is a <= b - 1 of ints.
struct Inequality {
  int small = 0;
  int large = 0;
  bool strict = false;
};

// The inequalities that a comparison is; none where it is no such.
std::vector<Inequality> inequalities(const Node& node) {
  const int a = node.args[0], b = node.args[1];
  switch (node.op) {
    case Op::kLess:
    case Op::kLessEqual:
      return {{a, b, node.is(Op::kLess)}};
    case Op::kGreater:
    case Op::kGreaterEqual:
      return {{b, a, node.is(Op::kGreater)}};
    case Op::kEqual:
      return {{a, b, false}, {b, a, false}};
    default:
      return {};
  }
}

/// Finds bounds of j among the terms of a graph.
class Bounds {
 public:
  explicit Bounds(Graph& graph) : graph_(graph), make_(graph), forms_(graph) {}

  /// Whether the term is nothing but bounds of j, which are then taken up.
  bool take(int term) {
    const Node node = graph_[term];
    if (node.num_args != 2 || graph_[node.args[0]].type != Type::kInt) return false;
    std::vector<std::pair<bool, int>> found;  // is it an upper bound, and where is it
    for (const Inequality& inequality : inequalities(node)) {
      if (!solve(inequality, found)) return false;
    }
    for (const auto& [is_upper, bound] : found) {
      std::optional<int>& so_far = is_upper ? upper_ : lower_;
      so_far = so_far ? make_.make(is_upper ? Op::kMin : Op::kMax, {*so_far, bound}) : bound;
    }
    return !found.empty();
  }

  std::optional<int> lower() const { return lower_; }
  std::optional<int> upper() const { return upper_; }

 private:
  // abs(x) <= y is x <= y and -x <= y.
  bool solve(const Inequality& inequality, std::vector<std::pair<bool, int>>& found) {
    const auto& [small, large, strict] = inequality;
    const Node node = graph_[small];
    if (!node.is(Op::kAbs)) return solve(forms_.of(small), forms_.of(large), strict, found);
    const int negative = make_.make(Op::kNegate, {node.args[0]});
    return solve(forms_.of(node.args[0]), forms_.of(large), strict, found) &&
           solve(forms_.of(negative), forms_.of(large), strict, found);
  }

  // From row * i + key * j + rest <= 0 to what j is at most, or at least.
  bool solve(const std::optional<Linear>& small, const std::optional<Linear>& large, bool strict,
             std::vector<std::pair<bool, int>>& found) {
    if (!small || !large) return false;
    const std::int64_t key = small->key - large->key, row = small->row - large->row;
    if (std::abs(key) != 1 || std::abs(row) > 1) return false;
    const bool is_upper = key > 0;
    const Linear other =
        is_upper ? forms_.difference(*large, *small) : forms_.difference(*small, *large);
    const std::int64_t one = !strict ? 0 : is_upper ? -1 : 1;
    int bound = graph_.add(literal(one));
    if (other.rest) bound = plus(*other.rest, bound);
    if (other.row != 0) {
      const int i = graph_.add(index(Index::kRow));
      bound = other.row > 0 ? plus(i, bound) : make_.make(Op::kSubtract, {bound, i});
    }
    found.emplace_back(is_upper, bound);
    return true;
  }

  // a + b, written as a - 5 rather than a + -5.
  int plus(int a, int b) {
    const int whole = make_.make(Op::kAdd, {a, b});
    const Node node = graph_[whole];
    if (!node.is(Op::kAdd)) return whole;
    const Node last = graph_[node.args[1]];
    if (!last.is(Op::kLiteral) || int_value(last) >= 0) return whole;
    return make_.make(Op::kSubtract, {node.args[0], make_.make(Op::kNegate, {node.args[1]})});
  }

  Graph& graph_;
  Simplifier make_;
  LinearForms forms_;
  std::optional<int> lower_, upper_;
};

// Terms of the simplified `keep`.
std::vector<int> split(Graph& graph, const Expr& keep) {
  if (keep.type() != Type::kBool) {
    throw Error(ErrorKind::kInternal, "the conjuncts of what is no bool");
  }
  Simplifier make(graph);
  std::vector<int> terms;
  split(graph, make, graph.import(simplify(keep)).back(), false, terms);
  return terms;
}

}  // namespace

std::vector<Expr> conjuncts(const Expr& keep) {
  Graph graph;
  std::vector<Expr> found;
  for (const int term : split(graph, keep)) found.push_back(graph.finish(term));
  return found;
}

KeyBounds key_bounds(const Expr& keep) {
  Graph graph;
  Bounds bounds(graph);
  KeyBounds result;
  for (const int term : split(graph, keep)) {
    if (!bounds.take(term)) result.rest.push_back(graph.finish(term));
  }
  if (bounds.lower()) result.lower = graph.finish(*bounds.lower());
  if (bounds.upper()) result.upper = graph.finish(*bounds.upper());
  return result;
}

std::vector<Expr> key_conjuncts(const Expr& keep) {
  std::vector<Expr> found = conjuncts(keep);
  std::erase_if(found, [](const Expr& term) { return (uses(term) & ~kKeyUses) != 0; });
  return found;
}

BoundedSides bounded_sides(const Expr& keep) {
  constexpr std::int64_t kMany = std::int64_t{1} << 20;
  constexpr IntRange kFirst{0, 63}, kLast{kMany - 64, kMany - 1};
  constexpr IntRange kAny{0, std::numeric_limits<std::int32_t>::max()};
  const std::vector<OperandRanges> operands = unknown_operands(keep, {.may_be_nan = true});
  const auto drops = [&](const IntRange& rows, const IntRange& keys) {
    Box box;
    for (const Index index : {Index::kBatch, Index::kHeadQ, Index::kHeadKv}) {
      box.indices[index] = kAny;
    }
    box.indices[Index::kRow] = rows;
    box.indices[Index::kKey] = keys;
    for (const Index index : {Index::kOffset, Index::kRowOffset, Index::kKeyOffset}) {
      box.indices[index] = {0, 0};
    }
    box.indices[Index::kNumQueries] = box.indices[Index::kNumKeys] = {kMany, kMany};
    box.operands = operands;
    return truth(keep, box) == Truth::kNever;
  };
  return {.left = drops(kLast, kFirst), .right = drops(kFirst, kLast)};
}

ReadBlocks read_blocks(const Expr& keep) {
  // The size of the blocks of `counted` that an index of a read numbers; 0 where it numbers none.
  const auto block_of = [&](int place, Index counted) -> std::int64_t {
    const Node& node = keep.node(place);
    if (!node.is(Op::kFloorDivide) && !node.is(Op::kShiftRight)) return 0;
    const Node& by = keep.node(node.args[1]);
    if (keep.node(node.args[0]) != index(counted) || !by.is(Op::kLiteral)) return 0;
    const std::int64_t value = int_value(by);
    if (node.is(Op::kFloorDivide)) return std::max<std::int64_t>(value, 0);
    return value >= 0 && value < 31 ? std::int64_t{1} << value : 0;
  };
  ReadBlocks found;
  for (const Node& node : keep.nodes()) {
    if (!node.is(Op::kRead)) continue;
    ReadBlocks of_read;
    for (const int place : node.arguments()) {
      of_read.rows = std::max(of_read.rows, block_of(place, Index::kRow));
      of_read.keys = std::max(of_read.keys, block_of(place, Index::kKey));
    }
    if (of_read.rows == 0 || of_read.keys == 0) continue;
    found = {std::gcd(found.rows, of_read.rows), std::gcd(found.keys, of_read.keys)};
  }
  return found;
}

}  // namespace attnjit::expr
