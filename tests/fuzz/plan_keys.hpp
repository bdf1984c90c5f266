#pragma once
#include "problem/plan_key.hpp"

namespace attnjit::fuzz {

/// A problem that every kind of kernel serves.
inline problem::PlanKey forward_key() {
  problem::PlanKey key{.bucket_q = 1024, .bucket_kv = 1024};
  key.family.head_dim = key.family.head_dim_v = 64;
  key.family.gqa_ratio = 4;
  key.family.aligned = true;
  return key;
}

inline problem::BackwardPlanKey backward_key() {
  problem::BackwardPlanKey key{.bucket_q = 1024, .bucket_kv = 1024};
  key.family.scores = forward_key().family;
  return key;
}

}  // namespace attnjit::fuzz
