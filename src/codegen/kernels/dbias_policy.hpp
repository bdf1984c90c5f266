#pragma once
#include <string>

#include "codegen/kernels/score_kernel.hpp"
#include "codegen/tunables.hpp"

namespace attnjit::codegen {

/// The kernel parameter of a dbias, whose planes batch elements share in groups where `grouped`.
inline Stub::Parameter dbias_parameter(bool grouped) {
  return {"BiasGradParams", "dbias", grouped};
}

/// The argument of the main loop that takes it, by `policy`.
inline std::string dbias_argument(const std::string& policy, bool grouped) {
  return fmt::format("{}(dbias)", grouped ? fmt::format("BatchGroupsGrad<{}>", policy) : policy);
}

/// Whether attn_bwd_dkv adds to planes that batch elements share in groups.
inline bool adds_to_groups(const problem::BackwardFamily& f, const BackwardTunables& t) {
  return t.dbias_method == DbiasMethod::kAdd && f.dbias_groups_batch;
}

}  // namespace attnjit::codegen
