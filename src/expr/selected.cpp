#include "expr/selected.hpp"

#include <algorithm>
#include <array>

#include "expr/rebuild.hpp"

namespace attnjit::expr {
namespace {

int index_in(Graph& graph, Index which) { return graph.add(index(which)); }

// The key's own number.
int key_in(Graph& graph) {
  const std::array<int, 3> place = {index_in(graph, Index::kBatch), index_in(graph, Index::kHeadKv),
                                    index_in(graph, Index::kKey)};
  return make_read(graph, graph.operand({kSelectedKeys, Type::kInt, 3}), place);
}

int num_keys_in(Graph& graph) {
  const std::array<int, 1> place = {index_in(graph, Index::kBatch)};
  return make_read(graph, graph.operand({kKeyNumbers, Type::kInt, 1}), place);
}

// The diagonal among all keys, where `off` counts from the last selected one.
int offset_in(Graph& graph, bool bottom_right) {
  Simplifier make(graph);
  const int own = index_in(graph, Index::kOffset);
  if (!bottom_right) return own;
  const int more = make.make(Op::kSubtract, {num_keys_in(graph), index_in(graph, Index::kNumKeys)});
  return make.make(Op::kAdd, {own, more});
}

// The key of the row on the diagonal, and `further` ones.
int diagonal_in(Graph& graph, bool bottom_right, std::int64_t further) {
  Simplifier make(graph);
  const int row = index_in(graph, Index::kRow);
  const int on = make.make(Op::kAdd, {row, offset_in(graph, bottom_right)});
  return make.make(Op::kAdd, {on, graph.add(literal(further))});
}

Expr over_selected(const Expr& e, bool bottom_right) {
  return rebuild(e, [bottom_right](Graph& graph, Simplifier&, const Node& leaf) {
    if (!leaf.is(Op::kIndex)) return graph.add(leaf);
    switch (static_cast<Index>(leaf.payload)) {
      case Index::kKey:
        return key_in(graph);
      case Index::kNumKeys:
        return num_keys_in(graph);
      case Index::kOffset:
        return offset_in(graph, bottom_right);
      default:
        return graph.add(leaf);
    }
  });
}

// At 0 along axes that one element serves: an index there would tie what is read to rows or keys.
int read_of_pair(Graph& graph, const char* name, Type type, const KeyedOperand& operand) {
  const int zero = graph.add(literal(std::int64_t{0}));
  const std::array<int, 4> place = {index_in(graph, Index::kBatch), index_in(graph, operand.head),
                                    operand.per_row ? index_in(graph, Index::kRow) : zero,
                                    operand.per_key ? key_in(graph) : zero};
  return make_read(graph, graph.operand({name, type, 4}), place);
}

int slope_term(Graph& graph, bool bottom_right) {
  Simplifier make(graph);
  const std::array<int, 2> place = {index_in(graph, Index::kBatch), index_in(graph, Index::kHeadQ)};
  const int slope = make_read(graph, graph.operand({kSlopesOfHeads, Type::kFloat, 2}), place);
  const int apart = make.make(Op::kSubtract, {diagonal_in(graph, bottom_right, 0), key_in(graph)});
  const int distance = make.make(Op::kToFloat, {make.make(Op::kAbs, {apart})});
  return make.make(Op::kMultiply, {slope, distance});
}

}  // namespace

std::optional<Expr> keep_of_selected(const KeyTerms& terms) {
  Graph graph;
  Simplifier make(graph);
  std::optional<int> kept;
  const auto also = [&](int term) { kept = kept ? make.make(Op::kAnd, {*kept, term}) : term; };
  if (!terms.all_name_keys) {
    also(make.make(Op::kGreaterEqual, {key_in(graph), graph.add(literal(std::int64_t{0}))}));
  }
  if (terms.right) {
    const int last = diagonal_in(graph, terms.bottom_right, *terms.right);
    also(make.make(Op::kLessEqual, {key_in(graph), last}));
  }
  if (terms.left) {
    const int first = diagonal_in(graph, terms.bottom_right, -*terms.left);
    also(make.make(Op::kGreaterEqual, {key_in(graph), first}));
  }
  if (terms.mask) also(read_of_pair(graph, kMaskOfKeys, Type::kBool, *terms.mask));
  if (terms.keep) {
    also(graph.import(over_selected(*terms.keep, terms.bottom_right)).back());
  }
  if (!kept) return std::nullopt;
  return graph.finish(*kept);
}

// Without building what they become, for a call of a new shape asks.
bool read_num_keys(const KeyTerms& terms) {
  const auto reads = [&](const Node& node) {
    return node.is(Op::kIndex) &&
           (static_cast<Index>(node.payload) == Index::kNumKeys ||
            (terms.bottom_right && static_cast<Index>(node.payload) == Index::kOffset));
  };
  const auto any_reads = [&](const std::optional<Expr>& e) {
    return e && std::ranges::any_of(e->nodes(), reads);
  };
  const bool has_diagonal = terms.left || terms.right || terms.has_slopes;
  return (terms.bottom_right && has_diagonal) || any_reads(terms.keep) || any_reads(terms.score);
}

std::optional<Expr> score_of_selected(const KeyTerms& terms) {
  const bool adds = terms.bias || terms.has_slopes;
  if (!terms.score && !adds) return std::nullopt;
  Graph graph;
  Simplifier make(graph);
  int value = terms.score ? graph.import(over_selected(*terms.score, terms.bottom_right)).back()
                          : graph.add(score());
  if (adds && terms.softcap > 0) {
    const int cap = graph.add(literal(terms.softcap));
    const int ratio = make.make(Op::kDivide, {value, cap});
    value = make.make(Op::kMultiply, {cap, make.make(Op::kTanh, {ratio})});
  }
  if (terms.bias) {
    const int bias = read_of_pair(graph, kBiasOfKeys, Type::kFloat, *terms.bias);
    value = make.make(Op::kAdd, {value, bias});
  }
  if (terms.has_slopes) {
    value = make.make(Op::kSubtract, {value, slope_term(graph, terms.bottom_right)});
  }
  return graph.finish(value);
}

}  // namespace attnjit::expr
