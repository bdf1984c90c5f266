#include "reference/outside_reads.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "reference/paged.hpp"
#include "reference/score_rule.hpp"
#include "reference/sequences.hpp"

namespace attnjit::reference {
namespace {

// Every how many-th row and key is looked at, so that pairs are `most` at most, or nearly so.
std::int64_t step_for(double pairs, std::int64_t most) {
  return std::max<std::int64_t>(
      1, std::llround(std::ceil(std::sqrt(pairs / static_cast<double>(most)))));
}

// begin, begin + step, ..., and the last one.
std::vector<std::int64_t> places(KeyRange range, std::int64_t step) {
  std::vector<std::int64_t> list;
  for (std::int64_t place = range.begin; place < range.end; place += step) list.push_back(place);
  if (!list.empty() && list.back() != range.end - 1) list.push_back(range.end - 1);
  return list;
}

// The reads of one call whose sequences are not packed.
class Search {
 public:
  Search(const ForwardArgs& args, std::int64_t first_batch, std::int64_t step, OutsideReads& found)
      : args_(args),
        rule_(args, first_batch),
        first_batch_(first_batch),
        step_(step),
        found_(found) {
    if (args.keep) keep_.emplace(expr::Kind::kKeep, args.keep, args, first_batch);
  }

  void run() {
    const auto& [batch, heads, queries, head_dim] = args_.q.shape;
    for (std::int64_t b = 0; b < batch; ++b) {
      for (std::int64_t h = 0; h < heads; ++h) {
        for (const std::int64_t i : places({0, rule_.rows_in_use(b)}, step_)) look_at_row(b, h, i);
      }
    }
  }

 private:
  void look_at_row(std::int64_t batch, std::int64_t head, std::int64_t query) {
    const PairExpression::Lengths lengths = rule_.lengths(batch);
    for (const std::int64_t j : places(rule_.band(batch, query), step_)) {
      const Pair pair{batch, head, query, j};
      bool is_outside = false;
      const auto look = [&](const std::optional<PairExpression>& expression) {
        if (!expression) return;
        PairExpression::Values values(*expression);
        const expr::OutsideObserver note = [&](int operand, std::size_t axis, std::int64_t index) {
          is_outside = true;
          if (!found_.first) found_.first = describe(pair, *expression, operand, axis, index);
        };
        values.watch(note);
        values.at(pair, lengths, 0);
      };
      look(keep_);
      std::uint8_t kept = 0;
      if (rule_.keep(batch, head, query, {j, j + 1}, &kept)) look(rule_.score());
      ++found_.pairs;
      found_.outside += is_outside ? 1 : 0;
    }
  }

  OutsideRead describe(const Pair& pair, const PairExpression& expression, int operand,
                       std::size_t axis, std::int64_t index) const {
    const std::string& name =
        expression.expression().operands()[static_cast<std::size_t>(operand)].name;
    const auto given = std::ranges::find(args_.operands, name,
                                         [](const Operand& o) { return std::string(o.name); });
    return {{pair.batch + first_batch_, pair.head, pair.query, pair.key},
            name,
            static_cast<int>(axis),
            index,
            given->tensor.shape[axis]};
  }

  const ForwardArgs& args_;
  const ScoreRule rule_;
  const std::int64_t first_batch_, step_;
  std::optional<PairExpression> keep_;
  OutsideReads& found_;
};

void search(const ForwardArgs& args, std::int64_t first_batch, std::int64_t step,
            OutsideReads& found) {
  if (is_paged(args)) return Search(UnpagedCall(args).args(), first_batch, step, found).run();
  Search(args, first_batch, step, found).run();
}

}  // namespace

OutsideReads outside_reads(const ForwardArgs& args, std::int64_t most_pairs) {
  OutsideReads found;
  if (args.operands.empty()) return found;
  const double pairs = static_cast<double>(args.q.shape[0]) * static_cast<double>(args.q.shape[1]) *
                       static_cast<double>(args.q.shape[2]) * static_cast<double>(num_keys(args));
  const std::int64_t step = step_for(pairs, most_pairs);
  if (!is_packed(args)) {
    search(args, 0, step, found);
    return found;
  }
  for (const Sequence& sequence : split_sequences(args))
    search(sequence.call, sequence.index, step, found);
  return found;
}

}  // namespace attnjit::reference
