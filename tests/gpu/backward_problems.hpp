#pragma once
#include <vector>

#include "gpu.hpp"

namespace attnjit::gpu_test {

/// A problem whose plan has steps of every kind but the deterministic ones: mask classes, sums of
/// dq and dbias, and rows that end within a tile. Rows of 500 keys are not aligned, so that the
/// path is mma on Hopper too.
inline instance::ProblemSpec full_problem(std::int64_t seqlen_kv = 500) {
  return {.batch = 2,
          .heads_q = 8,
          .heads_kv = 2,
          .seqlen_q = 300,
          .seqlen_kv = seqlen_kv,
          .head_dim = 64,
          .mask = "b1qk",
          .bias = "1hqk",
          .backward = true,
          .want_dlse = true,
          .want_dbias = true};
}

/// The same, and one whose rows are aligned: on Hopper dk, dv and dq are by wgmma.
inline std::vector<instance::ProblemSpec> full_problems() {
  const instance::ProblemSpec aligned = full_problem(496);
  expect_wgmma(instance::HostProblem(aligned, 4));
  return {full_problem(), aligned};
}

inline instance::ProblemSpec deterministic(instance::ProblemSpec spec) {
  spec.deterministic = true;
  return spec;
}

/// Both, by kernels that may use atomics and by those that may not.
inline std::vector<instance::ProblemSpec> full_problems_both_ways() {
  std::vector<instance::ProblemSpec> list = full_problems();
  for (const instance::ProblemSpec& spec : full_problems()) list.push_back(deterministic(spec));
  expect_wgmma(instance::HostProblem(list.back(), 4));
  return list;
}

inline void expect_right(instance::HostProblem& problem, const check::DeviceMirror& mirror) {
  mirror.download(problem);
  const auto verdict = check::judge_backward(problem, reference::Planes::every(), 4);
  INFO(verdict.text);
  CHECK(verdict.pass);
}

}  // namespace attnjit::gpu_test
