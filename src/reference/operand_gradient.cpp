#include "reference/operand_gradient.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "base/parallel.hpp"
#include "expr/derivative.hpp"
#include "reference/gradient_sums.hpp"

namespace attnjit::reference {
namespace {

// The element of a dense tensor that a read of an operand is of.
class ElementNumber {
 public:
  ElementNumber(const PairExpression& score, const expr::Expr& read, const ForwardArgs& args,
                const Tensor& tensor)
      : shape_(tensor.shape) {
    for (const int place : read.top().arguments()) {
      expressions_.push_back(score.with(expr::part(read, place), args));
    }
  }

  class Values {
   public:
    explicit Values(const ElementNumber& of) : shape_(of.shape_) {
      for (const PairExpression& index : of.expressions_) values_.emplace_back(index);
    }
    std::size_t at(const Pair& pair, const PairExpression::Lengths& lengths) {
      std::int64_t number = 0;
      for (std::size_t axis = 0; axis < values_.size(); ++axis) {
        const std::int64_t index = values_[axis].at(pair, lengths, 0).integer;
        number = number * shape_[axis] + std::clamp<std::int64_t>(index, 0, shape_[axis] - 1);
      }
      return static_cast<std::size_t>(number);
    }

   private:
    const std::array<std::int64_t, 4>& shape_;
    std::vector<PairExpression::Values> values_;
  };

 private:
  const std::array<std::int64_t, 4> shape_;
  std::vector<PairExpression> expressions_;
};

template <typename Real>
void add_to(std::vector<double>& sums, const std::vector<Real>& more) {
  for (std::size_t n = 0; n < sums.size(); ++n) sums[n] += more[n];
}

// The share of one read in the gradient of its operand.
template <typename Real>
class SiteSolver {
 public:
  SiteSolver(const GradientContext& context, const expr::ReadSite& read, const Tensor& tensor)
      : context_(context),
        site_{score().with(read.factor, forward()),
              score().with(expr::derivative_by_score(read.factor), forward())},
        element_(score(), read.read, forward(), tensor) {}

  void add_head(std::int64_t batch, std::int64_t head, GradientSums<Real>& sums) const {
    const std::int64_t rows = forward().q.shape[2];
    for (std::int64_t first = 0; first < rows; first += kGradientRows) {
      const RowBlock block{batch, head, first, std::min(first + kGradientRows, rows)};
      GradientTiles<Real> tiles(context_, block, &site_);
      std::vector<Weight> weights;
      for (std::int64_t tile = 0; tile < tiles.count(); ++tile) {
        if (tiles.compute(tile)) add_tile(block, tiles, tiles.keys(tile), sums, weights);
      }
      add_delta_errors(tiles, weights, sums);
    }
  }

 private:
  // The weight with which a pair takes delta to an element.
  struct Weight {
    std::int64_t row;
    std::size_t element;
    Real value;
  };

  // The error of delta is one for all pairs of a row: it reaches an element by the sum of their
  // weights, not by the root of the squares.
  void add_delta_errors(const GradientTiles<Real>& tiles, std::vector<Weight>& weights,
                        GradientSums<Real>& sums) const {
    const auto key = [](const Weight& w) { return std::pair(w.row, w.element); };
    std::ranges::stable_sort(weights, {}, key);
    for (auto first = weights.begin(); first != weights.end();) {
      Real total = 0;
      auto next = first;
      for (; next != weights.end() && key(*next) == key(*first); ++next) total += next->value;
      const Real term = Real{kDeltaErrors / kTermTolerance} * tiles.delta_error(first->row) * total;
      if (std::isfinite(term)) square(sums, first->element) += term * term;
      first = next;
    }
  }

  static Real& square(GradientSums<Real>& sums, std::size_t element) {
    return sums.squares[element / static_cast<std::size_t>(sums.width)];
  }

  const ForwardArgs& forward() const { return context_.args.forward; }
  const PairExpression& score() const { return *context_.scores.rule.score(); }

  void add_tile(const RowBlock& block, const GradientTiles<Real>& tiles, KeyRange keys,
                GradientSums<Real>& sums, std::vector<Weight>& weights) const {
    ElementNumber::Values element(element_);
    const PairExpression::Lengths lengths = context_.scores.rule.lengths(block.batch);
    const Real per_score = static_cast<Real>(2 * kScoreTolerance / kTermTolerance);
    const double cap = context_.scores.softcap();
    for (std::int64_t row = 0; row < tiles.rows(); ++row) {
      for (std::int64_t column = 0; column < keys.end - keys.begin; ++column) {
        const std::int64_t at = row * kTile + column;
        if (!tiles.kept()[at] || tiles.p()[at] == 0) continue;
        const Pair pair{block.batch, block.head, block.first + row, keys.begin + column};
        const std::size_t place = element.at(pair, lengths);
        const Real product = tiles.scores().product(row, column);
        const Real bend = std::fabs(tiles.ds()[at] * tiles.scores().curvature(row, column)) +
                          (cap > 0 ? std::fabs(tiles.dqk()[at]) / static_cast<Real>(cap) : Real{0});
        const Real term = tiles.terms()[at] * tiles.slopes()[at];
        const Real of_slope = per_score * product * bend;
        sums.values[place] += tiles.dqk()[at];
        weights.push_back({row, place, tiles.p()[at] * tiles.slopes()[at]});
        if (std::isfinite(term) && std::isfinite(of_slope)) {
          square(sums, place) += term * term + of_slope * of_slope;
        }
      }
    }
  }

  const GradientContext& context_;
  const ScoreSite site_;
  const ElementNumber element_;
};

}  // namespace

template <typename Real>
void compute_operand_gradients(const GradientContext& context, unsigned jobs,
                               std::vector<Gradient>& results) {
  const ForwardArgs& forward = context.args.forward;
  std::vector<expr::ReadSite> sites;
  if (forward.score) sites = expr::read_sites(context.scores.rule.score()->expression());
  for (std::size_t n = 0; n < results.size(); ++n) {
    const Tensor& tensor = context.args.operand_gradients[n];
    if (tensor.data == nullptr) continue;
    const auto rows = static_cast<std::int64_t>(results[n].terms.size());
    GradientSums<double> total(rows, tensor.shape[3]);
    for (const expr::ReadSite& site : sites) {
      if (site.operand != std::string_view(forward.operands[n].name)) continue;
      const SiteSolver<Real> solver(context, site, tensor);
      const std::int64_t heads = forward.q.shape[1];
      const auto tasks = static_cast<std::size_t>(forward.q.shape[0] * heads);
      std::vector<GradientSums<Real>> sums(tasks, GradientSums<Real>(rows, tensor.shape[3]));
      base::parallel_for(tasks, jobs, [&](std::size_t task) {
        const auto index = static_cast<std::int64_t>(task);
        solver.add_head(index / heads, index % heads, sums[task]);
      });
      for (const GradientSums<Real>& part : sums) {
        add_to(total.values, part.values);
        add_to(total.squares, part.squares);
      }
    }
    const bool rounds = sizeof(Real) == sizeof(float);
    for (std::size_t place = 0; place < total.values.size(); ++place) {
      const double value = total.values[place];
      results[n].values[place] = rounds ? tensor::round_to(tensor.dtype, value) : value;
    }
    for (std::size_t row = 0; row < total.squares.size(); ++row) {
      results[n].terms[row] = std::sqrt(total.squares[row]);
    }
  }
}

template void compute_operand_gradients<float>(const GradientContext&, unsigned,
                                               std::vector<Gradient>&);
template void compute_operand_gradients<double>(const GradientContext&, unsigned,
                                                std::vector<Gradient>&);

}  // namespace attnjit::reference
