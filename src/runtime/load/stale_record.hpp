#pragma once
#include "launch/plan.hpp"
#include "runtime/load/engine.hpp"
#include "tuner/record.hpp"

namespace attnjit::runtime {

/// Whether `record`, of `problem` on `arch`, was measured with another version of this library,
/// against another configuration 0 or with another release of NVRTC than those at hand. It is used
/// all the same. Gets a kernel of the record's configuration, as a rule from the cache: the release
/// is known from a cubin alone.
template <class Pass>
bool is_stale(Engine& engine, const tuner::BasicRecord<typename Pass::Key>& record,
              const typename Pass::Problem& problem, const codegen::Arch& arch);

}  // namespace attnjit::runtime
