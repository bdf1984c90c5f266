#include "reference/pair_expression.hpp"

#include <algorithm>
#include <string_view>

#include "expr/declare.hpp"
#include "expr/derivative.hpp"
#include "expr/parse.hpp"
#include "tensor/half.hpp"

namespace attnjit::reference {
namespace {

expr::OperandReader reader_of(const Operand& operand, expr::Type type) {
  expr::OperandReader reader;
  std::copy_n(operand.tensor.shape.begin(), operand.rank, reader.shape.begin());
  reader.read = [tensor = operand.tensor, rank = operand.rank, type](const expr::Places& place) {
    std::int64_t offset = 0;
    for (int axis = 0; axis < rank; ++axis) {
      offset += place[static_cast<std::size_t>(axis)] * tensor.strides[axis];
    }
    const double value = tensor::load(tensor.data, tensor.dtype, offset);
    switch (type) {
      case expr::Type::kBool:
        return expr::Value::of(value != 0);
      case expr::Type::kInt:
        return expr::Value::of(static_cast<std::int64_t>(value));
      default:
        return expr::Value::of(value);
    }
  };
  return reader;
}

std::vector<expr::OperandReader> readers_of(const expr::Expr& e, const ForwardArgs& args) {
  std::vector<expr::OperandReader> readers;
  for (const expr::OperandDeclaration& declaration : e.operands()) {
    const auto found = std::ranges::find(args.operands, std::string_view(declaration.name),
                                         [](const Operand& o) { return std::string_view(o.name); });
    readers.push_back(reader_of(*found, declaration.type));
  }
  return readers;
}

}  // namespace

PairExpression::PairExpression(expr::Kind kind, const Expression& text, const ForwardArgs& args,
                               std::int64_t first_batch)
    : PairExpression(expr::parse(kind, text.text(), expr::declarations(args.operands)), args,
                     first_batch, true) {
  is_placed_ = (expr::uses(expression_) & expr::kUsesOffsets) == 0;
  if (kind != expr::Kind::kScore) return;
  slope_ = expr::derivative_by_score(expression_);
  slope_readers_ = readers_of(*slope_, args);
}

PairExpression::PairExpression(expr::Expr e, const ForwardArgs& args, std::int64_t first_batch,
                               bool is_placed)
    : expression_(std::move(e)),
      is_placed_(is_placed),
      row_offset_(args.row_offset),
      key_offset_(args.key_offset),
      readers_(readers_of(expression_, args)),
      first_batch_(first_batch),
      heads_per_kv_head_(args.q.shape[1] / args.k.shape[1]) {}

PairExpression PairExpression::with(expr::Expr e, const ForwardArgs& args) const {
  return {std::move(e), args, first_batch_, is_placed_};
}

PairExpression::Values::Values(const PairExpression& of) : of_(of), value_(of.expression_) {
  if (of.slope_) slope_.emplace(*of.slope_);
}

const expr::Environment& PairExpression::Values::environment(const Pair& pair,
                                                             const Lengths& lengths, double score) {
  using enum expr::Index;
  auto& index = environment_.indices;
  index[kBatch] = of_.first_batch_ + pair.batch;
  index[kHeadQ] = pair.head;
  index[kHeadKv] = pair.head / of_.heads_per_kv_head_;
  const std::int64_t rows = of_.is_placed_ ? of_.row_offset_ : 0;
  const std::int64_t keys = of_.is_placed_ ? of_.key_offset_ : 0;
  index[kRow] = pair.query + rows;
  index[kKey] = pair.key + keys;
  index[kOffset] = lengths.offset + keys - rows;
  index[kRowOffset] = of_.row_offset_;
  index[kKeyOffset] = of_.key_offset_;
  index[kNumQueries] = lengths.queries;
  index[kNumKeys] = lengths.keys;
  environment_.score = score;
  return environment_;
}

expr::Value PairExpression::Values::at(const Pair& pair, const Lengths& lengths, double score) {
  environment_.operands = of_.readers_;
  return value_(environment(pair, lengths, score));
}

double PairExpression::Values::slope_at(const Pair& pair, const Lengths& lengths, double score) {
  environment_.operands = of_.slope_readers_;
  return (*slope_)(environment(pair, lengths, score)).number;
}

}  // namespace attnjit::reference
