#include "expr/blocks.hpp"

#include <array>

#include "expr/simplifier.hpp"

namespace attnjit::expr {
namespace {

int read_of(Graph& graph, const char* name, const BlockGrid& blocks) {
  Simplifier make(graph);
  const auto block_of = [&](Index which, std::int64_t size) {
    return make.make(Op::kFloorDivide, {graph.add(index(which)), graph.add(literal(size))});
  };
  const std::array<int, 4> place = {graph.add(index(Index::kBatch)), graph.add(index(blocks.head)),
                                    block_of(Index::kRow, blocks.rows),
                                    block_of(Index::kKey, blocks.keys)};
  return make_read(graph, graph.operand({name, Type::kBool, 4}), place);
}

}  // namespace

Expr within_blocks(const std::optional<Expr>& keep, const BlockGrid& blocks) {
  Graph graph;
  Simplifier make(graph);
  int kept = read_of(graph, kListedBlocks, blocks);
  if (keep) kept = make.make(Op::kAnd, {kept, graph.import(*keep).back()});
  if (blocks.has_full) kept = make.make(Op::kOr, {read_of(graph, kFullBlocks, blocks), kept});
  return graph.finish(kept);
}

}  // namespace attnjit::expr
