#pragma once
#include <string>
#include <vector>

#include "codegen/features.hpp"
#include "codegen/source.hpp"

namespace attnjit::codegen {

/// The stub of a main kernel: its loop gets the policies of the features.
struct ScoreKernel {
  const char* entry = nullptr;
  const char* header = nullptr;
  const char* function = nullptr;
  Stub::Parameter params = {};  ///< of the main loop
  const char* config_type = nullptr;
  std::string config = {};                 ///< its initialiser()
  std::vector<Stub::Parameter> more = {};  ///< before those of the features
  std::vector<std::string> policies = {};  ///< the same; parameters in `more` among them
  std::vector<std::string> headers = {};   ///< of these
  bool packs_heads = false;                ///< rows have heads of their own
  std::string formulas = {};               ///< beside those of the features
  /// In the place of the derivative of the score expression, which then transforms the scores.
  const expr::Expr* slope = nullptr;
};

inline constexpr const char* kBatchGroupsHeader = "score/batch_groups.cuh";

Source render_score_kernel(const ScoreKernel& kernel, std::string title,
                           const problem::Family& family, Pass pass, const TemplateSet& templates);

}  // namespace attnjit::codegen
