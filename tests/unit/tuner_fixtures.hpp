#pragma once
#include <string>

#include "tuner/config_zero.hpp"
#include "tuner/record.hpp"

namespace attnjit::test {

inline tuner::DeviceClass device_class() { return {"NVIDIA H200", 132, "sm_90a", 60u << 20}; }

inline tuner::TuneKey tune_key(int bucket_q = 1024, int bucket_kv = 1024, int planes = 16) {
  problem::Family f;
  f.head_dim = f.head_dim_v = 128;
  f.gqa_ratio = 4;
  f.aligned = true;
  return {device_class(), {f, bucket_q, bucket_kv, planes}, "test"};
}

/// A deterministic backward with a bias that the batch shares: it runs every kernel of its own.
inline tuner::BackwardTuneKey backward_tune_key(int bucket_q = 1024, int bucket_kv = 1024,
                                                int planes = 16) {
  problem::BackwardFamily f;
  f.scores = tune_key().plan.family;
  f.scores.bias = f.dbias = problem::Extent::kPerPair;
  f.scores.bias_vectorized = f.dbias_vectorized = true;
  f.dbias_dtype = f.scores.dtype;
  f.dbias_reduces_planes = f.deterministic = true;
  return {device_class(), {f, bucket_q, bucket_kv, planes}, "test"};
}

inline void change_tile(codegen::ForwardTunables& config, const problem::PlanKey&) {
  const bool wgmma = config.path == codegen::Path::kWgmma;
  config.block_q = !wgmma ? 32 : config.block_q == 64 ? 128 : 64;
  if (!wgmma) config.num_warps = config.block_q / 16;
}
inline void change_tile(codegen::BackwardTunables& tunables, const problem::BackwardPlanKey& key) {
  tunables = tuner::config_zero(key, codegen::without_wgmma(codegen::find_arch("sm_90a")));
  tunables.dkv.num_stages = 1;
}

/// A record with a legal configuration that configuration 0 is not.
template <class PlanKey>
tuner::BasicRecord<PlanKey> make_record(const tuner::BasicTuneKey<PlanKey>& key) {
  tuner::BasicRecord<PlanKey> record;
  record.key = key;
  record.exact = "bf16 b1 h16/4 lq1000 lk1000 d128";
  record.config = tuner::config_zero(key.plan, codegen::find_arch(key.device.arch));
  change_tile(record.config, key.plan);
  record.verdict = "gain";
  record.us = 80.5;
  record.mad = 0.25;
  record.default_us = 100;
  record.rounds = 14;
  record.library = ATTNJIT_VERSION;
  record.nvrtc = "13.0.88";
  record.driver = 13000;
  record.time = 1'700'000'000;
  return record;
}

}  // namespace attnjit::test
