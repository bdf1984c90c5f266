#include "runtime/load/stale_record.hpp"

#include "tuner/stale.hpp"

namespace attnjit::runtime {

template <class Pass>
bool is_stale(Engine& engine, const tuner::BasicRecord<typename Pass::Key>& record,
              const typename Pass::Problem& problem, const codegen::Arch& arch) {
  if (tuner::is_stale(record)) return true;
  const auto spec = engine.plan(record.key.plan.family, arch, record.config);
  const auto entry = engine.kernel(spec.steps.front().source, arch, problem::problem_text(problem));
  const auto known = facts(*entry);
  return !known || record.nvrtc != known->nvrtc_version;
}

template bool is_stale<launch::ForwardPass>(Engine&, const tuner::Record&, const problem::Problem&,
                                            const codegen::Arch&);
template bool is_stale<launch::BackwardPass>(Engine&, const tuner::BackwardRecord&,
                                             const problem::BackwardProblem&, const codegen::Arch&);

}  // namespace attnjit::runtime
