#include "codegen/render.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "codegen/features.hpp"
#include "codegen/kernel_dtype.hpp"
#include "codegen/literals.hpp"

namespace attnjit::codegen {
namespace {

using problem::BackwardFamily;
using problem::Family;

constexpr const char* kBatchGroupsHeader = "score/batch_groups.cuh";
constexpr const char* kPackedKeysHeader = "score/packed_keys.cuh";

// A kernel that computes scores: its main loop gets the policies of the features.
struct ScoreKernel {
  const char* entry;
  const char* header;
  const char* function;
  Stub::Parameter params;                  // of the main loop
  std::vector<Stub::Parameter> more = {};  // before those of the features
  std::vector<std::string> policies = {};  // the same; parameters in `more` among them
  std::vector<std::string> headers = {};   // of these
};

template <class Config>
Source render(const ScoreKernel& kernel, const char* config_type, const Config& config,
              std::string title, const Family& family, Pass pass, const TemplateSet& templates) {
  Stub stub{.entry = kernel.entry,
            .title = std::move(title),
            .headers = {kernel.header},
            .config_type = config_type,
            .config = initialiser(config),
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
    add_header(fmt::format("score/{}", feature->header));
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
  return make_source(stub, templates);
}

Source render(const ScoreKernel& kernel, const BackwardFamily& family,
              const kernel::BackwardConfig& config, const BackwardTile& tile,
              const TemplateSet& templates) {
  return render(kernel, "BackwardConfig", config,
                fmt::format("{} {} | {}{}", kernel.entry, describe(family), describe_tile(tile),
                            config.adds_dq ? " dq" : ""),
                family.scores, Pass::kBackward, templates);
}

// A kernel whose only parameter is a struct that is called as its config: type "MaskPack".
struct SmallKernel {
  const char* entry;
  const char* header;
  const char* function;
  std::string type;
};

// A 1 at the end of its launch bounds lets a kernel have the registers that it needs; ptxas may
// choose fewer otherwise.
template <class Config>
Source render(const SmallKernel& kernel, std::string title, const Config& config,
              const char* launch_bounds, const TemplateSet& templates, bool grouped = false) {
  const std::string config_type = kernel.type + "Config", params_type = kernel.type + "Params";
  return make_source({.entry = kernel.entry,
                      .title = std::move(title),
                      .headers = {kernel.header},
                      .config_type = config_type.c_str(),
                      .config = initialiser(config),
                      .definitions = "",
                      .launch_bounds = launch_bounds,
                      .parameters = {{params_type.c_str(), "params", grouped}},
                      .function = kernel.function,
                      .arguments = {"params"}},
                     templates);
}
constexpr const char* kThreads = "kConfig.num_threads()";
constexpr const char* kThreadsAndOne = "kConfig.num_threads(), 1";

constexpr Stub::Parameter kBackwardParams{"BackwardParams", "params"};
constexpr const char* kBiasGradHeader = "score/bias_grad.cuh";

Stub::Parameter bias_grad_params(bool grouped) { return {"BiasGradParams", "dbias", grouped}; }

// The policy of dbias whose planes batch elements share in groups, or do not.
std::string bias_grad(const std::string& policy, bool grouped) {
  return fmt::format("{}(dbias)", grouped ? fmt::format("BatchGroupsGrad<{}>", policy) : policy);
}

std::string bias_grad_store(const BackwardFamily& f) {
  return fmt::format("BiasGradStore<{}, {}>", literal(kernel_dtype(f.dbias_dtype)),
                     literal(f.dbias_vectorized));
}

// The policy of dbias in the kernel of dk and dv, which has keys in rows on path wgmma.
std::string bias_grad_in_dkv(const BackwardTunables& tunables, const BackwardFamily& f) {
  const bool wgmma = tunables.dkv.path == Path::kWgmma;
  switch (tunables.dbias_method) {
    case DbiasMethod::kNone:
    case DbiasMethod::kRows:
    case DbiasMethod::kKernel:
      break;
    case DbiasMethod::kStore:
      return bias_grad(wgmma ? "KeyBiasGradStore" : bias_grad_store(f), false);
    case DbiasMethod::kParts:
      return "KeyBiasGradParts(dbias)";
    case DbiasMethod::kColumns:
      if (wgmma) {
        return f.scores.bias_packs_keys ? "PackedKeysSums<KeyBiasGradColumns>(dbias)"
                                        : "KeyBiasGradColumns(dbias)";
      }
      return f.scores.bias_packs_keys
                 ? "PackedKeysGrad<BiasGradColumns<kConfig.warp_keys() / 32>>(dbias)"
                 : "BiasGradColumns<kConfig.warp_keys() / 32>(dbias)";
    case DbiasMethod::kAdd:
      return bias_grad(wgmma ? "KeyBiasGradAdd" : "BiasGradAdd", f.dbias_groups_batch);
  }
  return wgmma ? "NoKeyBiasGrad{}" : "NoBiasGrad{}";
}

// Kernels read a mask as bits. A mask that the caller has prepared makes no other kernel, nor do
// the strides of its bytes, and so neither makes another title: the cache knows a kernel by its
// text.
Family reading_bits(Family family) {
  if (family.classifies_mask()) family.mask_vectorized = true;
  family.mask_prepared = false;
  return family;
}
BackwardFamily reading_bits(BackwardFamily family) {
  family.scores = reading_bits(family.scores);
  return family;
}

}  // namespace

bool dbias_in_dkv(DbiasMethod method) {
  return stores_dbias(method) || method == DbiasMethod::kColumns || method == DbiasMethod::kAdd;
}

Source render_forward(const Family& of_problem, const ForwardTunables& tunables,
                      const TemplateSet& templates) {
  const Family family = reading_bits(of_problem);
  const std::string title =
      fmt::format("attn_fwd {} | {}", describe(family), describe_tile(tunables));
  if (tunables.path == Path::kWgmma) {
    return render({.entry = "attn_fwd",
                   .header = "forward/wgmma/kernel.cuh",
                   .function = "forward_wgmma",
                   .params = {"ForwardWgmmaParams", "params"}},
                  "ForwardWgmmaConfig", forward_wgmma_config(family, tunables), title, family,
                  Pass::kForward, templates);
  }
  return render({.entry = "attn_fwd",
                 .header = "forward/mma/kernel.cuh",
                 .function = "forward",
                 .params = {"ForwardParams", "params"}},
                "ForwardConfig", forward_config(family, tunables), title, family, Pass::kForward,
                templates);
}

Source render_mask_pack(const kernel::MaskPackConfig& config, const TemplateSet& templates) {
  return render({"mask_pack", "prepass/mask_pack.cuh", "mask_pack", "MaskPack"},
                fmt::format("mask_pack {}{}{}", config.per_pair ? "qk" : "1k",
                            config.vectorized ? "" : " scalar",
                            !config.by_keys  ? ""
                            : config.by_rows ? " by rows and keys"
                                             : " by keys"),
                config, kThreads, templates);
}

Source render_packed_order(const kernel::PackedOrderConfig& config, const TemplateSet& templates) {
  return render({"packed_order", "prepass/packed_order.cuh", "packed_order", "PackedOrder"},
                fmt::format("packed_order q{} heads{}{}", config.block_q, config.packed_heads,
                            config.paged_keys ? " paged" : ""),
                config, kThreads, templates);
}

Source render_forward_combine(const kernel::ForwardCombineConfig& config,
                              const TemplateSet& templates) {
  return render({"attn_fwd_combine", "forward/combine.cuh", "forward_combine", "ForwardCombine"},
                fmt::format("attn_fwd_combine {} dv{}{} | w{}", name(config.dtype),
                            config.head_dim_v, config.row_max ? " row_max" : "", config.num_warps),
                config, kThreads, templates);
}

Source render_max_logits(const kernel::MaxLogitsConfig& config, const TemplateSet& templates) {
  return render({"max_logits", "forward/max_logits.cuh", "max_logits", "MaxLogits"},
                fmt::format("max_logits | w{}", config.num_warps), config, kThreads, templates);
}

Source render_merge_lse(const kernel::MergeLseConfig& config, const TemplateSet& templates) {
  return render({"merge_lse", "forward/merge_lse.cuh", "merge_lse", "MergeLse"},
                fmt::format("merge_lse {} to {} dv{}{}{}", name(config.part_dtype),
                            name(config.dtype), config.head_dim_v,
                            config.aligned ? "" : " unaligned", config.carry ? " carry" : ""),
                config, kThreads, templates);
}

Source render_backward_dkv(const BackwardFamily& of_problem, const BackwardTunables& tunables,
                           const TemplateSet& templates) {
  const BackwardFamily family = reading_bits(of_problem);
  const bool adds_groups = tunables.dbias_method == DbiasMethod::kAdd && family.dbias_groups_batch;
  if (tunables.dkv.path == Path::kWgmma) {
    const bool wide = separates_dq(family);
    ScoreKernel kernel{
        .entry = "attn_bwd_dkv",
        .header = wide ? "backward/dkv_wgmma_d256/kernel.cuh" : "backward/dkv_wgmma/kernel.cuh",
        .function = wide ? "backward_dkv_wide" : "backward_dkv_wgmma",
        .params = {"BackwardWgmmaParams", "params"},
        .policies = {bias_grad_in_dkv(tunables, family)}};
    if (dbias_in_dkv(tunables.dbias_method)) kernel.more = {bias_grad_params(adds_groups)};
    if (adds_groups) kernel.headers = {kBatchGroupsHeader};
    const auto render_with = [&](const char* config_type, const auto& config) {
      return render(
          kernel, config_type, config,
          fmt::format("attn_bwd_dkv {} | {}", describe(family), describe_tile(tunables.dkv)),
          family.scores, Pass::kBackward, templates);
    };
    return wide ? render_with("BackwardWideConfig", dkv_wide_config(family, tunables))
                : render_with("BackwardWgmmaConfig", dkv_wgmma_config(family, tunables));
  }
  ScoreKernel kernel{.entry = "attn_bwd_dkv",
                     .header = "backward/mma/dkv.cuh",
                     .function = "backward_dkv",
                     .params = kBackwardParams,
                     .policies = {bias_grad_in_dkv(tunables, family)}};
  if (dbias_in_dkv(tunables.dbias_method)) {
    kernel.more = {bias_grad_params(adds_groups)};
    kernel.headers = {kBiasGradHeader};
  }
  if (adds_groups) kernel.headers.push_back(kBatchGroupsHeader);
  return render(kernel, family, dkv_config(family, tunables), tunables.dkv, templates);
}

Source render_backward_dq(const BackwardFamily& of_problem, const BackwardTunables& tunables,
                          const TemplateSet& templates) {
  const BackwardFamily family = reading_bits(of_problem);
  if (tunables.dq.path == Path::kWgmma) {
    return render({.entry = "attn_bwd_dq",
                   .header = "backward/dq_wgmma/kernel.cuh",
                   .function = "backward_dq_wgmma",
                   .params = {"BackwardDqWgmmaParams", "params"}},
                  "BackwardDqWgmmaConfig", dq_wgmma_config(family, tunables),
                  fmt::format("attn_bwd_dq {} | {}", describe(family), describe_tile(tunables.dq)),
                  family.scores, Pass::kBackward, templates);
  }
  return render({.entry = "attn_bwd_dq",
                 .header = "backward/mma/dq.cuh",
                 .function = "backward_dq",
                 .params = kBackwardParams},
                family, dq_config(family, tunables), tunables.dq, templates);
}

Source render_backward_dbias(const BackwardFamily& of_problem, const BackwardTunables& tunables,
                             const TemplateSet& templates) {
  const BackwardFamily family = reading_bits(of_problem);
  const bool grouped = family.dbias_groups_batch;
  ScoreKernel kernel{.entry = "attn_bwd_dbias",
                     .header = "backward/mma/dbias.cuh",
                     .function = "backward_dbias",
                     .params = kBackwardParams,
                     .more = {{"BiasPlanes", "planes"}, bias_grad_params(grouped)},
                     .policies = {"planes", bias_grad(bias_grad_store(family), grouped)},
                     .headers = {kBiasGradHeader}};
  if (grouped) kernel.headers.push_back(kBatchGroupsHeader);
  return render(kernel, family, dbias_config(family, tunables), tunables.dbias, templates);
}

Source render_backward_preprocess(const kernel::BackwardPreprocessConfig& config,
                                  const TemplateSet& templates) {
  return render(
      {"backward_preprocess", "backward/preprocess.cuh", "backward_preprocess",
       "BackwardPreprocess"},
      fmt::format("backward_preprocess {} dv{}{}{}{}{}{}{}", name(config.dtype), config.head_dim_v,
                  config.aligned ? "" : " unaligned", config.pieces ? " pieces" : "",
                  config.sink ? " sink" : "", config.row_mask ? " row_mask" : "",
                  config.row_bias ? " row_bias" : "", config.packed ? " packed" : ""),
      config, kThreadsAndOne, templates);
}

Source render_fragment_sum(const kernel::FragmentSumConfig& config, const TemplateSet& templates) {
  return render({"fragment_sum", "backward/fragment_sum.cuh", "fragment_sum", "FragmentSum"},
                fmt::format("fragment_sum {} d{}{}{}", name(config.dtype), config.head_dim,
                            config.aligned ? "" : " unaligned", config.packed ? " packed" : ""),
                config, kThreadsAndOne, templates);
}

Source render_bias_sum(const kernel::BiasSumConfig& config, const TemplateSet& templates) {
  return render(
      {"bias_sum", "backward/bias_sum.cuh", "bias_sum", "BiasSum"},
      fmt::format("bias_sum {}{}{}{}{}{}", name(config.dtype), config.vectorized ? "" : " scalar",
                  config.sums_planes() ? fmt::format(" of {} planes", name(config.parts)) : "",
                  config.over_queries ? " over queries" : "", config.groups ? " grouped" : "",
                  config.packed ? " packed" : ""),
      config, kThreadsAndOne, templates, config.groups);
}

}  // namespace attnjit::codegen
