// Configuration 0 of every family in tests/assets/forward_grid.json, which scripts/covering-grid
// writes so that every pair of choices occurs: it compiles, spills nothing and fits.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "attnjit/error.hpp"
#include "base/environment.hpp"
#include "base/parallel.hpp"
#include "runtime/engine.hpp"
#include "tuner/config_zero.hpp"

using namespace attnjit;
using problem::Extent;
using problem::Family;

namespace {

// One kernel to compile, and what came of it.
struct Job {
  const codegen::Arch* arch;
  launch::StepSpec step;
  compiler::Facts facts = {};
  std::string error = "";
};

bool has_word(const std::string& text, const std::string& word) {
  return (" " + text + " ").find(" " + word + " ") != std::string::npos;
}

Extent extent(const std::string& text) {
  if (text == "none") return Extent::kAbsent;
  if (has_word(text, "1k")) return Extent::kPerKey;
  if (has_word(text, "qk")) return Extent::kPerPair;
  REQUIRE_MESSAGE(text == "q1", text);
  return Extent::kPerQuery;
}

// As problem::make_problem: a tensor that does not vary over keys has no vectors of keys.
bool vectorized(const std::string& text) {
  return (has_word(text, "1k") || has_word(text, "qk")) && !has_word(text, "scalar");
}

problem::PlanKey plan_key(const nlohmann::json& row) {
  const std::string mask = row.at("mask"), bias = row.at("bias"), band = row.at("band");
  Family f;
  f.dtype = row.at("dtype") == "bf16" ? DType::kBFloat16 : DType::kFloat16;
  f.head_dim = row.at("head_dim");
  f.head_dim_v = row.at("head_dim_v");
  f.gqa_ratio = row.at("gqa_ratio");
  f.aligned = row.at("aligned");
  f.positive_scale = row.at("positive_scale");
  f.mask = extent(mask);
  f.mask_vectorized = vectorized(mask);
  f.bias = extent(bias);
  f.bias_vectorized = vectorized(bias);
  if (f.bias != Extent::kAbsent) f.bias_dtype = has_word(bias, "fp32") ? DType::kFloat32 : f.dtype;
  f.bounded_left = band == "window" || band == "left";
  f.bounded_right = band == "window" || band == "causal";
  f.seqlens = row.at("seqlens");
  return {f, row.at("bucket_q"), 1024};
}

// Each kernel once: families share mask prepasses, and buckets share tiles.
std::vector<Job> collect_jobs(const nlohmann::json& rows) {
  const codegen::TemplateSet templates;
  std::set<std::pair<std::string_view, std::string>> seen;
  std::vector<Job> jobs;
  for (const auto& row : rows) {
    const problem::PlanKey key = plan_key(row);
    for (const std::string name : row.at("archs")) {
      const codegen::Arch& arch = codegen::find_arch(name);
      const kernel::ForwardConfig config = tuner::config_zero(key, arch);
      const auto rule = codegen::why_invalid(config, arch);
      CHECK_MESSAGE(!rule, name, " ", problem::describe(key.family), ": ", rule.value_or(""));
      auto spec = launch::make_forward_plan_spec(key.family, config, arch, templates);
      for (launch::StepSpec& step : spec.steps) {
        if (!seen.emplace(arch.name, step.source.text).second) continue;
        jobs.push_back({&arch, std::move(step)});
      }
    }
  }
  return jobs;
}

void compile(compiler::Compiler& compiler, Job& job) {
  try {
    const auto& source = job.step.source;
    job.facts = compiler.compile(source.text, source.entry, std::string(job.arch->name)).facts;
  } catch (const Error& error) {
    job.error = error.what();
  }
}

// What is wrong with a compiled kernel, or nothing.
std::string complaint(const Job& job) {
  const compiler::Facts& facts = job.facts;
  if (!job.error.empty()) return job.error;
  std::string text;
  if (facts.spill_store_bytes + facts.spill_load_bytes + facts.stack_bytes != 0) {
    text += fmt::format(" spills {} stored, {} loaded, stack {}", facts.spill_store_bytes,
                        facts.spill_load_bytes, facts.stack_bytes);
  }
  if (facts.serialized()) text += " serialized";
  const int shared = static_cast<int>(job.step.shared_bytes) + facts.static_shared_bytes;
  if (shared > job.arch->shared_bytes_per_block) text += fmt::format(" shared {}", shared);
  return text;
}

}  // namespace

TEST_CASE("configuration 0 compiles without a spill for every pair of choices") {
  std::ifstream file(ATTNJIT_TEST_ASSETS "/forward_grid.json");
  const auto rows = nlohmann::json::parse(file);
  CHECK(rows.size() >= 112);  // pairs of (dims, bias) alone need as many
  std::vector<Job> jobs = collect_jobs(rows);

  // The compiler itself, no cache: what is asserted is what it says today.
  runtime::Engine engine(base::process_environment());
  base::parallel_for(jobs.size(), 2, [&](std::size_t i) { compile(engine.compiler(), jobs[i]); });

  std::map<std::string, const Job*> worst;  // by arch and entry
  for (const Job& job : jobs) {
    const std::string wrong = complaint(job);
    CHECK_MESSAGE(wrong.empty(), job.arch->name, " ", job.step.source.title, ": ",
                  job.facts.registers, " registers,", wrong);
    const Job*& most = worst[fmt::format("{} {}", job.arch->name, job.step.source.entry)];
    if (most == nullptr || most->facts.registers < job.facts.registers) most = &job;
  }
  for (const auto& [what, job] : worst) {
    MESSAGE(what, ": at most ", job->facts.registers, " registers [", job->step.source.title, "]");
  }
}
