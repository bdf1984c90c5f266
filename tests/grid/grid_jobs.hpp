#pragma once
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "attnjit/error.hpp"
#include "base/environment.hpp"
#include "base/parallel.hpp"
#include "grid_plans.hpp"
#include "runtime/load/engine.hpp"

namespace attnjit::test {

/// One kernel to compile, and the result.
struct GridJob {
  const codegen::Arch* arch;
  launch::StepSpec step;
  compiler::Facts facts = {};
  std::string error = "";
};

/// The kernels of a grid, each once: families share their small kernels, and buckets share tiles.
class GridJobs {
 public:
  void add(const codegen::Arch& arch, const launch::StepSpec& step) {
    if (seen_.emplace(arch.name, step.source.text).second) jobs_.push_back({&arch, step});
  }

  /// Compiles all by the compiler itself, no cache: what is asserted is what it says today. Reports
  /// what takes most registers.
  const std::vector<GridJob>& compile() {
    runtime::Engine engine(base::process_environment());
    base::parallel_for(jobs_.size(), 2, [&](std::size_t i) { compile(engine, jobs_[i]); });
    std::map<std::string, const GridJob*> worst;  // by arch and entry
    for (const GridJob& job : jobs_) {
      const GridJob*& most = worst[fmt::format("{} {}", job.arch->name, job.step.source.entry)];
      if (most == nullptr || most->facts.registers < job.facts.registers) most = &job;
    }
    for (const auto& [what, job] : worst) {
      MESSAGE(what, ": at most ", job->facts.registers, " registers [", job->step.source.title,
              "]");
    }
    return jobs_;
  }

 private:
  static void compile(runtime::Engine& engine, GridJob& job) {
    try {
      const auto& source = job.step.source;
      job.facts =
          engine.compiler().compile(source.text, source.entry, std::string(job.arch->name)).facts;
    } catch (const Error& error) {
      job.error = error.what();
    }
  }

  std::set<std::pair<std::string_view, std::string>> seen_;
  std::vector<GridJob> jobs_;
};

/// Bytes that a kernel may spill: none, but for those of two rows of the forward's grid and five
/// kernels of the backward's, which are what NVRTC 13.0 makes of them.
inline int spill_allowance(const GridJob& job) {
  struct Row {
    const char *arch, *family;
    int bytes;
  };
  constexpr const char* kFp32Bias =
      "fp16 d256 gqa4 right seqlens alibi tail_mask mask=1k bias=qk,fp32 sink=fp32 page_size=64 |";
  constexpr const char* kSoftcap =
      "fp16 d128 dv256 gqa1 seqlens softcap alibi tail_mask row_max mask=qk bias=qk,fp16,scalar "
      "page_size=64 unaligned |";
  constexpr const char* kWideDq =
      "attn_bwd_dq bf16 d256 gqa1 left right mask=qk bias=qk,bf16 dbias=qk,bf16,reduced "
      "deterministic |";
  constexpr const char* kPackedWideDq =
      "attn_bwd_dq bf16 d256 gqa3 left seqlens packed mask=qk bias=qk,bf16 |";
  // Of a tile of keys, not of a tile of queries.
  constexpr const char* kKeySums =
      "attn_bwd_dkv bf16 d128 gqa1 left right mask=qk bias=1k,bf16 scale<=0 dbias=1k,bf16 |";
  // Of elements of a bias that are loaded one by one, and of masked rows of packed sequences.
  constexpr const char* kElementsD96 =
      "attn_bwd_dkv bf16 d96 gqa4 left right seqlens bias=qk,bf16,scalar "
      "dbias=qk,bf16,reduced,few,scalar |";
  constexpr const char* kPackedDqD192 =
      "attn_bwd_dq fp16 d192 gqa4 left right packed mask=qk bias=qk,fp16 |";
  constexpr Row kRows[] = {{"sm_80", kFp32Bias, 8},       {"sm_90a", kFp32Bias, 8},
                           {"sm_80", kSoftcap, 48},       {"sm_90a", kSoftcap, 32},
                           {"sm_120", kSoftcap, 4},       {"sm_90a", kWideDq, 16},
                           {"sm_90a", kPackedWideDq, 32}, {"sm_90a", kKeySums, 16},
                           {"sm_90a", kElementsD96, 32},  {"sm_90a", kPackedDqD192, 32}};
  for (const Row& row : kRows) {
    const bool meant = job.step.source.title.find(row.family) != std::string::npos;
    if (meant && job.arch->name == row.arch) return row.bytes;
  }
  return 0;
}

/// The spills of a kernel in words; empty where it has no more than it may.
inline std::string spills(const GridJob& job) {
  const compiler::Facts& facts = job.facts;
  const int allowance = spill_allowance(job);
  const bool stack_alone = job.step.source.title.find("| wgmma ") != std::string::npos &&
                           facts.spill_store_bytes + facts.spill_load_bytes == 0 &&
                           facts.stack_bytes <= 16;
  if (stack_alone || (allowance > 0 && facts.spill_store_bytes <= allowance) ||
      facts.spill_store_bytes + facts.spill_load_bytes + facts.stack_bytes == 0) {
    return "";
  }
  return fmt::format(" spills {} stored, {} loaded, stack {}", facts.spill_store_bytes,
                     facts.spill_load_bytes, facts.stack_bytes);
}

/// Other faults of a compiled kernel in words; empty where it has none.
inline std::string complaint(const GridJob& job) {
  if (!job.error.empty()) return job.error;
  std::string text = job.facts.serialized() ? " serialized" : "";
  const int shared = static_cast<int>(job.step.shared_bytes) + job.facts.static_shared_bytes;
  if (shared > job.arch->shared_bytes_per_block) text += fmt::format(" shared {}", shared);
  return text;
}

/// Checks that every kernel compiles, spills no more than it may and fits.
inline void expect_sound(GridJobs& jobs) {
  for (const GridJob& job : jobs.compile()) {
    const std::string wrong = complaint(job) + spills(job);
    CHECK_MESSAGE(wrong.empty(), job.arch->name, " ", job.step.source.title, ": ",
                  job.facts.registers, " registers,", wrong);
  }
}

/// The plans of every 24th row, on the architectures of each.
inline std::vector<GridPlan> sample(std::vector<GridPlan> plans) {
  std::erase_if(plans, [](const GridPlan& plan) { return plan.row % 24 != 1; });
  return plans;
}

/// The same of the kernels of `plans`.
inline void expect_sound(const std::vector<GridPlan>& plans) {
  GridJobs jobs;
  for (const GridPlan& plan : plans) {
    CHECK_MESSAGE(plan.illegal.empty(), plan.name, " ", plan.family, ": ", plan.illegal);
    for (const launch::StepSpec& step : plan.steps) jobs.add(*plan.arch, step);
  }
  expect_sound(jobs);
}

}  // namespace attnjit::test
