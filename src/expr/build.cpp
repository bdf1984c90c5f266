#include "expr/build.hpp"

#include <fmt/format.h>

#include <utility>

#include "attnjit/error.hpp"
#include "expr/make.hpp"

namespace attnjit::expr {
namespace {

std::vector<int> import_all(Graph& graph, const std::vector<Expr>& args) {
  std::vector<int> places;
  places.reserve(args.size());
  for (const Expr& arg : args) places.push_back(graph.import(arg).back());
  return places;
}

Expr finish(const Graph& graph, int place) {
  if (const std::string why = graph.why_too_large(place); !why.empty()) {
    throw Error(ErrorKind::kInvalidProblem, why);
  }
  return graph.finish(place);
}

}  // namespace

Operand::Operand(OperandDeclaration declaration) : declaration_(std::move(declaration)) {
  check_declarations({&declaration_, 1});
}

Expr Operand::read(const std::vector<Expr>& indices) const {
  Graph graph;
  const int number = graph.operand(declaration_);
  return finish(graph, make_read(graph, number, import_all(graph, indices)));
}

Operand operand(std::string name, Type type, int rank) {
  return Operand({std::move(name), type, rank});
}

Expr build(Op op, const std::vector<Expr>& args) {
  Graph graph;
  return finish(graph, make(graph, op, import_all(graph, args)));
}

}  // namespace attnjit::expr
