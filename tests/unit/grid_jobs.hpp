#pragma once
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "attnjit/error.hpp"
#include "base/environment.hpp"
#include "base/parallel.hpp"
#include "runtime/engine.hpp"

namespace attnjit::test {

/// One kernel to compile, and what came of it.
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

/// What a kernel spills, or nothing.
inline std::string spills(const compiler::Facts& facts) {
  if (facts.spill_store_bytes + facts.spill_load_bytes + facts.stack_bytes == 0) return "";
  return fmt::format(" spills {} stored, {} loaded, stack {}", facts.spill_store_bytes,
                     facts.spill_load_bytes, facts.stack_bytes);
}

/// What else is wrong with a compiled kernel, or nothing.
inline std::string complaint(const GridJob& job) {
  if (!job.error.empty()) return job.error;
  std::string text = job.facts.serialized() ? " serialized" : "";
  const int shared = static_cast<int>(job.step.shared_bytes) + job.facts.static_shared_bytes;
  if (shared > job.arch->shared_bytes_per_block) text += fmt::format(" shared {}", shared);
  return text;
}

/// The rows of a file under tests/assets.
inline nlohmann::json grid_rows(const char* name) {
  std::ifstream file(fmt::format("{}/{}", ATTNJIT_TEST_ASSETS, name));
  return nlohmann::json::parse(file);
}

inline bool has_word(const std::string& text, const std::string& word) {
  return (" " + text + " ").find(" " + word + " ") != std::string::npos;
}

inline problem::Extent grid_extent(const std::string& text) {
  using problem::Extent;
  if (text == "none") return Extent::kAbsent;
  if (has_word(text, "1k")) return Extent::kPerKey;
  if (has_word(text, "qk")) return Extent::kPerPair;
  REQUIRE_MESSAGE(text == "q1", text);
  return Extent::kPerQuery;
}

/// The scores of a row's family.
inline problem::Family grid_family(const nlohmann::json& row) {
  const std::string mask = row.at("mask"), bias = row.at("bias"), band = row.at("band");
  // As problem::make_problem: a tensor that does not vary over keys has no vectors of keys.
  const auto vectorized = [](const std::string& text) {
    return (has_word(text, "1k") || has_word(text, "qk")) && !has_word(text, "scalar");
  };
  problem::Family f;
  f.dtype = row.at("dtype") == "bf16" ? DType::kBFloat16 : DType::kFloat16;
  f.head_dim = row.at("head_dim");
  f.head_dim_v = row.at("head_dim_v");
  f.gqa_ratio = row.at("gqa_ratio");
  f.aligned = row.at("aligned");
  f.positive_scale = row.at("positive_scale");
  f.mask = grid_extent(mask);
  f.mask_vectorized = vectorized(mask);
  f.bias = grid_extent(bias);
  f.bias_vectorized = vectorized(bias);
  if (f.bias != problem::Extent::kAbsent) {
    f.bias_dtype = has_word(bias, "fp32") ? DType::kFloat32 : f.dtype;
  }
  f.bounded_left = band == "window" || band == "left";
  f.bounded_right = band == "window" || band == "causal";
  f.seqlens = row.at("seqlens");
  return f;
}

}  // namespace attnjit::test
