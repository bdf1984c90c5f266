// Ranges of random expressions over boxes of points: that they hold every value.
#include <doctest/doctest.h>

#include <cmath>

#include "expr/interval.hpp"
#include "expr/print.hpp"
#include "unit/expr/random_values.hpp"

using namespace attnjit;
using namespace attnjit::expr;

namespace expr_interval_values_test {

namespace {

IntRange random_range(test::RandomExpressions& random, bool is_wide) {
  const std::int64_t limit = is_wide ? std::int64_t{1} << 31 : 40;
  const std::int64_t a = random.between(is_wide ? -limit : -3, limit - 1);
  if (random.once_in(3)) return {a, a};
  return {a, std::min(a + random.between(0, random.once_in(4) ? limit : 9),
                      (std::int64_t{1} << 31) - 1)};
}

// The values of all nodes with floats rounded to fp32 after each operation, and those below 2^-126
// set to 0 if `flushes`, as a kernel may.
std::vector<Value> values_in_fp32(const Expr& e, const Environment& point, bool flushes) {
  std::vector<Value> values;
  for (const Node& node : e.nodes()) {
    std::vector<Value> args;
    for (const int arg : node.arguments()) args.push_back(values[static_cast<std::size_t>(arg)]);
    if (args.empty() || node.is(Op::kRead)) {
      Graph leaf;  // or a read, whose indices are values
      std::vector<int> places;
      for (const Value& value : args) places.push_back(leaf.add(literal(value.integer)));
      Environment own = point;
      if (node.is(Op::kRead)) {
        const auto operand = static_cast<std::size_t>(node.operand);
        own.operands = point.operands.subspan(operand, 1);
        values.push_back(evaluate(
            leaf.finish(make_read(leaf, leaf.operand(e.operands()[operand]), places)), own));
      } else {
        values.push_back(evaluate(leaf.finish(leaf.add(node)), own));
      }
    } else {
      values.push_back(apply_operation(node.op, args));
    }
    double& number = values.back().number;
    number = static_cast<double>(static_cast<float>(number));
    if (flushes && std::fabs(number) < 0x1p-126) number = std::copysign(0.0, number);
  }
  return values;
}

// Checks that the ranges of all nodes hold the values at random points of random boxes.
void check_ranges(std::uint64_t seed, int expressions, int points) {
  test::RandomExpressions random(seed, {.largest = 2000});
  int proven = 0, of_ints = 0;
  for (int n = 0; n < expressions; ++n) {
    const Expr e = random.of(n % 3 == 0 ? Kind::kScore : Kind::kKeep);
    const test::RandomValues values(e, static_cast<std::uint64_t>(n), true);
    const bool is_wide = random.once_in(4);
    const std::vector<OperandRanges> operands = values.ranges();
    Box box;
    for (IntRange& range : box.indices.of) range = random_range(random, is_wide);
    box.score = {-2, 3.5, random.once_in(2)};
    box.operands = operands;
    const std::vector<Range> ranges = ranges_of_nodes(e, box);
    std::vector<Evaluator> evaluators;
    for (int place = 0; place <= e.root(); ++place) evaluators.emplace_back(part(e, place));
    std::vector<std::vector<OperandReader>> readers;  // of the parts
    for (int place = 0; place <= e.root(); ++place) {
      readers.push_back(test::readers_of(part(e, place), e, values.readers()));
    }
    for (int m = 0; m < points; ++m) {
      Environment point;
      for (std::size_t k = 0; k < kNumIndices; ++k) {
        const IntRange& range = box.indices.of[k];
        point.indices.of[k] = random.once_in(4)   ? range.first
                              : random.once_in(3) ? range.last
                                                  : random.between(range.first, range.last);
      }
      point.score = box.score.may_be_nan && random.once_in(4)
                        ? NAN
                        : static_cast<double>(random.between(-128, 224)) / 64;
      point.operands = values.readers();
      const std::vector<Value> in_fp32 = values_in_fp32(e, point, m % 2 == 0);
      for (int place = 0; place <= e.root(); ++place) {
        point.operands = readers[static_cast<std::size_t>(place)];
        const Value value = evaluators[static_cast<std::size_t>(place)](point);
        const Range& range = ranges[static_cast<std::size_t>(place)];
        INFO(print(part(e, place)), " is ", value.integer, " or ", value.number, "; range ",
             range.ints.first, " ", range.ints.last, " or ", range.floats.low, " ",
             range.floats.high, " ", range.floats.may_be_nan);
        REQUIRE(range.contains(value));
        const Value& rounded = in_fp32[static_cast<std::size_t>(place)];
        CAPTURE(rounded.integer);
        CAPTURE(rounded.number);
        REQUIRE(range.contains(rounded));
      }
    }
    if (e.type() == Type::kBool && !e.top().is(Op::kLiteral)) {
      ++of_ints;
      if (truth(e, box) != Truth::kUnknown) ++proven;
    }
  }
  // Ranges of everything would hold as well.
  CHECK(proven > of_ints / 5);
}

}  // namespace

TEST_CASE("a range holds the value at every point") { check_ranges(31, 800, 8); }

TEST_CASE("slow: ranges of many expressions hold the value at every point") {
  check_ranges(32, 10000, 10);
}

}  // namespace expr_interval_values_test
