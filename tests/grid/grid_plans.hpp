#pragma once
#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "launch/backward_plan_spec.hpp"
#include "tuner/config_zero.hpp"

namespace attnjit::test {

/// The kernels of one family of a covering grid, under configuration 0.
struct GridPlan {
  std::string name;  ///< "forward 12 sm_80": the row and the architecture
  int row;           ///< counted from 1
  const codegen::Arch* arch;
  std::string family;   ///< described
  std::string illegal;  ///< the rule that configuration 0 breaks; empty: none
  std::vector<launch::StepSpec> steps;
};

/// The rows of tests/assets/NAME, which scripts/covering-grid writes.
inline base::Json grid_rows(const char* name) {
  std::ifstream file(fmt::format("{}/{}", ATTNJIT_TEST_ASSETS, name));
  return base::parse_json(std::string(std::istreambuf_iterator<char>(file), {}));
}

inline bool has_word(const std::string& text, const std::string& word) {
  return (" " + text + " ").find(" " + word + " ") != std::string::npos;
}

inline problem::Extent grid_extent(const std::string& text) {
  using problem::Extent;
  if (text == "none") return Extent::kAbsent;
  if (has_word(text, "1k")) return Extent::kPerKey;
  if (has_word(text, "qk")) return Extent::kPerPair;
  if (has_word(text, "q1")) return Extent::kPerQuery;
  throw std::invalid_argument("grid: no axes are called " + text);
}

/// The scores of a row's family.
inline problem::Family grid_family(const base::Json& row) {
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
  f.softcap = row.at("softcap");
  f.sink = row.at("sink");
  f.alibi = row.at("alibi");
  f.row_max = row.value("row_max", false);  // of forwards alone
  f.mask_prepared = row.at("mask_prepared");
  f.mask = grid_extent(mask);
  f.mask_vectorized = vectorized(mask);
  f.bias = grid_extent(bias);
  f.bias_vectorized = vectorized(bias);
  if (f.bias != problem::Extent::kAbsent) {
    f.bias_dtype = has_word(bias, "fp32") ? DType::kFloat32 : f.dtype;
  }
  f.bounded_left = band == "window" || band == "left";
  f.bounded_right = band == "window" || band == "causal";
  f.packed = row.at("packed");
  if (row.contains("page_size")) {  // of a forward
    f.page_size = row.at("page_size");
    f.tail_mask = row.at("tail_mask");
  }
  // Kernels of packed sequences have lengths beside them in any case, and those of pages always.
  f.seqlens = (row.at("seqlens") || f.page_size > 0) && !f.packed;
  return f;
}

inline problem::BackwardFamily grid_backward_family(const base::Json& row) {
  problem::BackwardFamily f;
  f.scores = grid_family(row);
  f.deterministic = row.at("deterministic");
  if (row.at("dbias") != "none") {
    f.dbias = f.scores.bias;
    f.dbias_dtype = f.scores.bias_dtype;
    f.dbias_vectorized = f.scores.bias_vectorized;
    f.dbias_reduces_planes = row.at("dbias") == "reduced";
  }
  return f;
}

/// tests/assets/forward_grid.json.
inline std::vector<GridPlan> forward_grid(const codegen::TemplateSet& templates = {}) {
  std::vector<GridPlan> plans;
  int number = 0;
  for (const auto& row : grid_rows("forward_grid.json")) {
    problem::PlanKey key{grid_family(row), row.at("bucket_q"), 1024};
    problem::Family& f = key.family;
    f.mask_few_rows = f.mask == problem::Extent::kPerKey && !f.mask_prepared && !f.packed &&
                      key.bucket_q * f.gqa_ratio <= 16;
    ++number;
    for (const std::string arch_name : row.at("archs")) {
      const codegen::Arch& arch = codegen::find_arch(arch_name);
      const codegen::ForwardTunables config = tuner::config_zero(key, arch);
      const auto spec = launch::make_forward_plan_spec(key.family, config, arch, templates);
      plans.push_back({fmt::format("forward {} {}", number, arch_name),
                       number,
                       &arch,
                       problem::describe(key.family),
                       codegen::why_unfit(config, key.family, arch).value_or(""),
                       {spec.steps.begin(), spec.steps.end()}});
    }
  }
  return plans;
}

/// tests/assets/backward_grid.json.
inline std::vector<GridPlan> backward_grid(const codegen::TemplateSet& templates = {}) {
  std::vector<GridPlan> plans;
  int number = 0;
  for (const auto& row : grid_rows("backward_grid.json")) {
    const problem::BackwardPlanKey key{grid_backward_family(row), 1024, 1024};
    ++number;
    for (const std::string arch_name : row.at("archs")) {
      const codegen::Arch& arch = codegen::find_arch(arch_name);
      const codegen::BackwardTunables tunables = tuner::config_zero(key, arch);
      const auto spec = launch::make_backward_plan_spec(key.family, tunables, arch, templates);
      plans.push_back({fmt::format("backward {} {}", number, arch_name),
                       number,
                       &arch,
                       problem::describe(key.family),
                       codegen::why_unfit(tunables, key.family, arch).value_or(""),
                       {spec.steps.begin(), spec.steps.end()}});
    }
  }
  return plans;
}

}  // namespace attnjit::test
