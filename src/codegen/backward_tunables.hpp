#pragma once
#include <optional>
#include <string>

#include "attnjit/backward_config.h"
#include "attnjit/backward_preprocess_config.h"
#include "attnjit/bias_sum_config.h"
#include "attnjit/fragment_sum_config.h"
#include "attnjit/mask_classes_config.h"
#include "codegen/arch.hpp"
#include "problem/backward_problem.hpp"

namespace attnjit::codegen {

/// How dq comes about.
enum class DqMethod {
  kAdd,     ///< added up in fp32 by the kernel of dk and dv, by atomics
  kKernel,  ///< by a kernel of its own that computes the scores again
};

/// How the gradient of the bias comes about.
enum class DbiasMethod {
  kNone,     ///< it is not wanted
  kRows,     ///< it does not vary over keys: rows of dS sum to dlse, and no score is needed
  kStore,    ///< by the kernel of dk and dv, tile by tile
  kColumns,  ///< it varies over keys alone: columns are summed in the kernel of dk and dv
  kAdd,      ///< planes are reduced: added up in fp32 by the kernel of dk and dv, by atomics
  kKernel,   ///< planes are reduced: by a kernel of its own that computes the scores again
};

/// The tile of one kernel, see kernel::BackwardConfig.
struct BackwardTile {
  int block_q = 0, block_kv = 0, num_stages = 0, num_warps = 0, query_warps = 0, min_blocks = 0;
  int late = 0, fresh = 0;
  bool operator==(const BackwardTile&) const = default;
};

/// Everything that can be chosen for a backward.
struct BackwardTunables {
  DqMethod dq = DqMethod::kAdd;
  DbiasMethod dbias = DbiasMethod::kNone;
  bool split = true;       ///< queries of a key tile may be shared out where the grid is small
  BackwardTile keys;       ///< of the kernel of dk and dv
  BackwardTile queries;    ///< of the kernel of dq, used with DqMethod::kKernel
  BackwardTile bias_tile;  ///< of the kernel of dbias, used with DbiasMethod::kKernel
  bool operator==(const BackwardTunables&) const = default;
};

/// The method that serves `family` where nothing speaks for another.
DbiasMethod default_dbias_method(const problem::BackwardFamily& family);

/// The rule that keeps `tunables` from running problems of `family` on `arch`, as a sentence, or
/// nullopt.
std::optional<std::string> why_unfit(const BackwardTunables& tunables,
                                     const problem::BackwardFamily& family, const Arch& arch);

// The kernels of a backward.
kernel::BackwardConfig keys_config(const problem::BackwardFamily& family,
                                   const BackwardTunables& tunables);
kernel::BackwardConfig queries_config(const problem::BackwardFamily& family,
                                      const BackwardTunables& tunables);
kernel::BackwardConfig dbias_config(const problem::BackwardFamily& family,
                                    const BackwardTunables& tunables);
std::optional<kernel::MaskClassesConfig> mask_classes_config(const problem::BackwardFamily& family);
kernel::BackwardPreprocessConfig preprocess_config(const problem::BackwardFamily& family);
kernel::FragmentSumConfig fragment_sum_config(const problem::BackwardFamily& family, int columns);
/// None where dbias is complete without a last step.
std::optional<kernel::BiasSumConfig> bias_sum_config(const problem::BackwardFamily& family,
                                                     DbiasMethod method);

/// "q64 kv128 s2 w8 qw2 b1 late fresh2": a tile for titles and tables.
std::string describe_tile(const BackwardTile& tile);

/// The tile of the kernel of dk and dv, and those of the others that run: "q64 kv64 s2 w4 qw2 b1,
/// dq q128 kv32 s2 w4 qw4 b1".
std::string describe_tile(const BackwardTunables& tunables);

/// The tunables as a JSON object, and the other way round: members of `tunables` that `json` names
/// are set. Throws Error(kInvalidEnvironment) on malformed text, an unknown member or value.
std::string to_json(const BackwardTunables& tunables);
void update_from_json(BackwardTunables& tunables, const std::string& json);

}  // namespace attnjit::codegen
