#include "codegen/kernels/score_kernel.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "codegen/expression_code.hpp"

namespace attnjit::codegen {
namespace {

constexpr const char* kPackedKeysHeader = "score/packed_keys.cuh";

}  // namespace

Source render_score_kernel(const ScoreKernel& kernel, std::string title,
                           const problem::Family& family, Pass pass, const TemplateSet& templates) {
  Stub stub{.entry = kernel.entry,
            .title = std::move(title),
            .headers = {kernel.header},
            .config_type = kernel.config_type,
            .config = kernel.config,
            .definitions = "inline constexpr ScoreShape kScores = kConfig.scores();\n",
            .launch_bounds = "kConfig.num_threads(), kConfig.min_blocks",
            .parameters = {kernel.params},
            .function = kernel.function,
            .arguments = {kernel.params.name}};
  const auto append = [](auto& list, const auto& more) {
    list.insert(list.end(), more.begin(), more.end());
  };
  append(stub.headers, kernel.headers);
  const auto add_header = [&](std::string header) {
    if (std::ranges::find(stub.headers, header) == stub.headers.end()) {
      stub.headers.push_back(std::move(header));
    }
  };
  append(stub.parameters, kernel.more);
  append(stub.arguments, kernel.policies);
  for (const Feature* feature : features(family, pass)) {
    const bool has_parameter = feature->name != nullptr;
    if (kernel.slope != nullptr && is_score(*feature)) {
      add_header("score/score_expression.cuh");
      stub.formulas += score_formula(*family.score, *kernel.slope, kernel.packs_heads);
      stub.parameters.push_back({feature->parameter_type, feature->name});
      stub.arguments.push_back("ScoreExpression<kScores, ScoreFormula>(score)");
      continue;
    }
    add_header(fmt::format("score/{}", feature->header));
    if (feature->formula != nullptr) stub.formulas += feature->formula(family, kernel.packs_heads);
    const bool groups = feature->groups_batch != nullptr && family.*feature->groups_batch;
    if (has_parameter) stub.parameters.push_back({feature->parameter_type, feature->name, groups});
    std::string policy = feature->policy(family, pass);
    if (groups) {
      add_header(kBatchGroupsHeader);
      policy = fmt::format("BatchGroups<{}>", policy);
    }
    if (feature->packs_keys != nullptr && family.*feature->packs_keys) {
      add_header(kPackedKeysHeader);
      policy = fmt::format("PackedKeys<{}>", policy);
    }
    stub.arguments.push_back(fmt::format("{}({})", policy, has_parameter ? feature->name : ""));
  }
  stub.formulas += kernel.formulas;
  return make_source(stub, templates);
}

}  // namespace attnjit::codegen
