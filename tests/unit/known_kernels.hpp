#pragma once
#include <string>

#include "base/json.hpp"
#include "launch/backward_plan_spec.hpp"
#include "runtime/load/engine.hpp"
#include "unit/cache_fixtures.hpp"

namespace attnjit::test {

/// The facts of a kernel that a compiler of the future serialised.
inline compiler::Facts serialized_facts() {
  return {.nvrtc_version = "13.9.1",
          .warnings = {"ptxas info    : (C7510) Potential Performance Loss"}};
}

/// A kernel for sm_90a that nobody compiled, of which the compiler said `facts`.
inline cache::Entry known_kernel(runtime::Engine& engine, const launch::StepSpec& step,
                                 const compiler::Facts& facts) {
  const base::Json meta = {{"facts", base::parse_json(compiler::to_json(facts))}};
  return {.key = engine.key(step.source, codegen::find_arch(kArch)),
          .arch = kArch,
          .compiler_id = engine.compiler().likely_id(),
          .meta_json = meta.dump(),
          .cubin = fake_cubin()};
}

/// Hands add() such a kernel for each step of `spec`; `facts` are those of the main one.
template <class Spec, class Add>
void for_known_kernels(runtime::Engine& engine, const Spec& spec, const compiler::Facts& facts,
                       Add add) {
  for (std::size_t i = 0; i < spec.steps.size(); ++i) {
    add(known_kernel(engine, spec.steps[i], i == main_step(spec) ? facts : compiler::Facts{}));
  }
}

/// Keeps them in the cache of `engine`.
template <class Spec>
void keep_known_kernels(runtime::Engine& engine, const Spec& spec,
                        const compiler::Facts& facts = {}) {
  for_known_kernels(engine, spec, facts, [&](const cache::Entry& entry) {
    CHECK(engine.cache().publish(entry).value_or("") == "");
  });
}

}  // namespace attnjit::test
