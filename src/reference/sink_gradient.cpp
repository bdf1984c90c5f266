#include "reference/sink_gradient.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include "tensor/half.hpp"

namespace attnjit::reference {

SinkTerm sink_term(const GradientContext& context, std::int64_t batch, std::int64_t head,
                   std::int64_t query) {
  constexpr double kNone = -std::numeric_limits<double>::infinity();
  const std::int64_t index = context.row_index(batch, head, query);
  const double sink = context.scores.sink(head), lse = context.forward.lse[index];
  if (sink == kNone || lse == kNone) return {};
  const double dlse = context.args.dlse == nullptr ? 0 : context.args.dlse[index];
  if (context.forward.dead[index]) return {dlse, 0};
  const std::int64_t dim_v = context.args.dout.shape[3];
  std::vector<double> dout(static_cast<std::size_t>(dim_v));
  load_row(context.args.dout, batch, head, query, dout.data());
  const double* const out = &context.forward.out[index * dim_v];
  double dot = 0, dout_square = 0, out_square = 0;
  for (std::int64_t d = 0; d < dim_v; ++d) {
    dot += dout[d] * out[d];
    dout_square += dout[d] * dout[d];
    out_square += out[d] * out[d];
  }
  const double share = std::exp(sink - context.lse(index));
  const double size = share * std::sqrt(dout_square * out_square);
  return {-share * (dot - dlse), size * counted(share)};
}

void compute_dsink(const GradientContext& context, const Planes& planes, Gradient& result) {
  const auto& [batches, heads, rows, head_dim] = context.args.forward.q.shape;
  // In units of the 2^-20 that the accuracy rule allows of terms.
  const double rounding = 0x1p20 * tensor::unit_roundoff(context.args.forward.q.dtype);
  for (std::int64_t head = 0; head < heads; ++head) {
    bool selected = true;
    double sum = 0, squares = 0;
    for (std::int64_t batch = 0; batch < batches; ++batch) {
      selected = selected && planes.holds({batch, context.scores.head_kv(head)});
      for (std::int64_t query = 0; selected && query < rows; ++query) {
        const SinkTerm term = sink_term(context, batch, head, query);
        sum += term.value;
        squares += term.size * term.size;
      }
    }
    if (!selected) continue;
    result.values[head] = sum;
    result.terms[head] = rounding * std::sqrt(squares);
  }
}

}  // namespace attnjit::reference
