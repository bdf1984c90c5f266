#include "reference/outside_reads.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "reference/paged.hpp"
#include "reference/score_rule.hpp"
#include "reference/sequences.hpp"

namespace attnjit::reference {
namespace {

// The distance between rows, and between keys, that are looked at: `most` pairs at most, or nearly
// so.
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
    watch(keep_, keep_values_);
    watch(rule_.score(), score_values_);
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
      pair_ = {batch, head, query, j};
      is_outside_ = false;
      if (keep_values_) keep_values_->values.at(pair_, lengths, 0);
      std::uint8_t kept = 0;
      if (score_values_ && rule_.keep(batch, head, query, {j, j + 1}, &kept)) {
        score_values_->values.at(pair_, lengths, 0);
      }
      ++found_.pairs;
      found_.outside += is_outside_ ? 1 : 0;
    }
  }

  // The values of an expression, and the observer of its reads at pair_.
  struct Watched {
    expr::OutsideObserver note;
    PairExpression::Values values;
  };
  void watch(const std::optional<PairExpression>& expression, std::optional<Watched>& watched) {
    if (!expression) return;
    const auto note = [this, &expression](int operand, std::size_t axis, std::int64_t index) {
      is_outside_ = true;
      if (!found_.first) found_.first = describe(*expression, operand, axis, index);
    };
    watched.emplace(Watched{note, PairExpression::Values(*expression)});
    watched->values.watch(watched->note);
  }

  OutsideRead describe(const PairExpression& expression, int operand, std::size_t axis,
                       std::int64_t index) const {
    const std::string& name =
        expression.expression().operands()[static_cast<std::size_t>(operand)].name;
    const auto given = std::ranges::find(args_.operands, name,
                                         [](const Operand& o) { return std::string(o.name); });
    return {{pair_.batch + first_batch_, pair_.head, pair_.query, pair_.key},
            name,
            static_cast<int>(axis),
            index,
            given->tensor.shape[axis]};
  }

  const ForwardArgs& args_;
  const ScoreRule rule_;
  const std::int64_t first_batch_, step_;
  std::optional<PairExpression> keep_;
  std::optional<Watched> keep_values_, score_values_;
  Pair pair_{};  // that is looked at
  bool is_outside_ = false;
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
