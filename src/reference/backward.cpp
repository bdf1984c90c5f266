#include "reference/backward.hpp"

#include <limits>

#include "base/parallel.hpp"
#include "reference/bias_gradient.hpp"
#include "reference/check_args.hpp"
#include "reference/gradient_tiles.hpp"
#include "reference/operand_gradient.hpp"
#include "reference/packed.hpp"
#include "reference/plane_gradients.hpp"
#include "reference/sequences.hpp"
#include "reference/sink_gradient.hpp"
#include "reference/unpacked.hpp"

namespace attnjit::reference {
namespace {

Gradient not_computed(const Tensor& tensor) {
  constexpr double kNotComputed = std::numeric_limits<double>::quiet_NaN();
  const auto rows = static_cast<std::size_t>(tensor.shape[0] * tensor.shape[1] * tensor.shape[2]);
  return {std::vector(rows * static_cast<std::size_t>(tensor.shape[3]), kNotComputed),
          std::vector(rows, kNotComputed),
          {}};
}

template <typename Real>
void compute(const GradientContext& context, const Planes& planes, unsigned jobs,
             BackwardResult& result) {
  const std::int64_t heads_kv = context.args.dk.shape[1];
  const std::int64_t count = context.args.dk.shape[0] * heads_kv;
  base::parallel_for(static_cast<std::size_t>(count), jobs, [&](std::size_t task) {
    const auto index = static_cast<std::int64_t>(task);
    const Plane plane{index / heads_kv, index % heads_kv};
    if (planes.holds(plane)) {
      compute_plane<Real>(context, plane, result);
    }
  });
  if (context.args.dbias) {
    compute_dbias<Real>(context, planes, jobs, result.dbias);
  }
  if (context.args.dsink) compute_dsink(context, planes, result.dsink);
  if (planes.all) compute_operand_gradients<Real>(context, jobs, result.operands);
}

}  // namespace

BackwardResult backward(const BackwardArgs& args, Arithmetic arithmetic, const Planes& planes,
                        unsigned jobs) {
  check_args(args);
  return is_packed(args.forward) ? backward_packed(args, arithmetic, planes, jobs)
                                 : backward_unpacked(args, arithmetic, planes, jobs);
}

BackwardResult backward_unpacked(const BackwardArgs& args, Arithmetic arithmetic,
                                 const Planes& planes, unsigned jobs, std::int64_t first_batch) {
  BackwardResult result{not_computed(args.dq),
                        not_computed(args.dk),
                        not_computed(args.dv),
                        args.dbias ? not_computed(*args.dbias) : Gradient{},
                        args.dsink ? not_computed(*args.dsink) : Gradient{},
                        {}};
  for (const Tensor& tensor : args.operand_gradients) {
    result.operands.push_back(tensor.data == nullptr ? Gradient{} : not_computed(tensor));
  }
  const Rows rows = Rows::every();
  const ForwardResult outputs =
      forward_unpacked(args.forward, arithmetic, rows, jobs, planes, first_batch);
  const ScoreRule rule(args.forward, first_batch);
  const BlockContext scores{args.forward, rule, rows};
  const GradientContext context{args, scores, outputs};
  if (arithmetic == Arithmetic::kExact) {
    result.dv.sizes = result.dv.values;  // not computed yet either
    compute<double>(context, planes, jobs, result);
  } else {
    compute<float>(context, planes, jobs, result);
  }
  return result;
}

}  // namespace attnjit::reference
