#pragma once
#include "reference/backward.hpp"
#include "reference/gradient_tiles.hpp"

namespace attnjit::reference {

/// The part of one row in the gradient of its head's sink, -exp(sink - lse) delta, and the size of
/// exp(sink - lse) |dout| |out|, of which delta is a difference. Both 0 without a sink.
struct SinkTerm {
  double value = 0;
  double size = 0;
};
SinkTerm sink_term(const GradientContext& context, std::int64_t batch, std::int64_t head,
                   std::int64_t query);

/// Writes dsink of the heads whose planes are all selected. Its terms allow for an `out` that is
/// rounded to q's dtype once more than `exact` has it.
void compute_dsink(const GradientContext& context, const Planes& planes, Gradient& result);

}  // namespace attnjit::reference
