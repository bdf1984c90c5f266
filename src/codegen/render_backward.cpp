#include "codegen/render_backward.hpp"

#include <fmt/format.h>

#include "attnjit/error.hpp"
#include "codegen/kernel_dtype.hpp"
#include "codegen/literals.hpp"

namespace attnjit::codegen {
namespace {

using problem::BackwardFamily;
using problem::Extent;

// How the stub mentions one feature.
struct BackwardFeatureText {
  const char* header;
  const char* parameter_type;  // empty: it has no parameter
  const char* parameter;
  std::string policy;
};

BackwardFeatureText backward_feature_text(BackwardFeature feature, const problem::Family& f) {
  switch (feature) {
    case BackwardFeature::kSeqlens:
      return {"seqlens.cuh", "SeqlensParams", "seqlens", "Seqlens"};
    case BackwardFeature::kBias: {
      // One that is the same for all keys of a row is read as one that is not, at stride 0: it must
      // be added before lse is taken off, or the digits that lse lacks would be missed.
      const Extent extent = f.bias == Extent::kPerKey ? Extent::kPerKey : Extent::kPerPair;
      return {"bias.cuh", "OperandParams", "bias",
              fmt::format("Bias<kScores, {}, {}, {}, kConfig.late != 0>",
                          literal(kernel_dtype(f.bias_dtype)), literal(extent),
                          literal(f.bias_vectorized))};
    }
    case BackwardFeature::kByteMask:
      return {"byte_mask.cuh", "ByteMaskParams", "mask",
              fmt::format("ByteMask<kScores, {}, {}, kConfig.late != 0>", literal(f.mask),
                          literal(f.mask_vectorized))};
    case BackwardFeature::kBand:
      return {
          "band.cuh", "BandParams", "band",
          fmt::format("Band<kScores, {}, {}>", literal(f.bounded_left), literal(f.bounded_right))};
    case BackwardFeature::kLength:
      return {"length.cuh", "", "", "Length<kScores>"};
  }
  throw Error(ErrorKind::kInternal, "unknown backward feature");
}

std::string bias_grad_policy(DbiasMethod method, const BackwardFamily& f) {
  switch (method) {
    case DbiasMethod::kNone:
    case DbiasMethod::kRows:
      return "NoBiasGrad{}";
    case DbiasMethod::kKernel:
    case DbiasMethod::kStore:
      return fmt::format("BiasGradStore<{}, {}>(dbias)", literal(kernel_dtype(f.dbias_dtype)),
                         literal(f.dbias_vectorized));
    case DbiasMethod::kColumns:
      return "BiasGradColumns<kConfig.warp_keys() / 32>(dbias)";
    case DbiasMethod::kAdd:
      return "BiasGradAdd(dbias)";
  }
  return "";
}

// One of the three kernels that compute scores.
struct ScoreKernel {
  const char* entry;      // of the kernel
  const char* header;     // of its main loop
  const char* function;   // in it
  std::string bias_grad;  // the argument for it; empty: the function has none
  bool planes = false;    // it takes BiasPlanes
};

Source render(const ScoreKernel& kernel, const BackwardFamily& family,
              const kernel::BackwardConfig& config, const TemplateSet& templates) {
  std::string includes = fmt::format("#include \"attnjit/{}\"\n", kernel.header);
  std::string parameters = "    const __grid_constant__ BackwardParams params";
  std::string arguments = "params";
  if (kernel.planes) {
    parameters += ",\n    const __grid_constant__ BiasPlanes planes";
    arguments += ", planes";
  }
  if (!kernel.bias_grad.empty()) arguments += ",\n    " + kernel.bias_grad;
  if (kernel.bias_grad.find("(dbias)") != std::string::npos) {
    includes += "#include \"attnjit/score/bias_grad.cuh\"\n";
    parameters += ",\n    const __grid_constant__ BiasGradParams dbias";
  }
  for (const BackwardFeature feature : backward_features(family)) {
    const BackwardFeatureText text = backward_feature_text(feature, family.scores);
    includes += fmt::format("#include \"attnjit/score/{}\"\n", text.header);
    if (*text.parameter != '\0') {
      parameters +=
          fmt::format(",\n    const __grid_constant__ {} {}", text.parameter_type, text.parameter);
    }
    arguments += fmt::format(",\n    {}({})", text.policy, text.parameter);
  }
  const BackwardTile tile{config.block_q,   config.block_kv,    config.num_stages,
                          config.num_warps, config.query_warps, config.min_blocks,
                          config.late,      config.fresh};
  Source source;
  source.entry = kernel.entry;
  source.title = fmt::format("{} {} | {}{}", kernel.entry, describe(family), describe_tile(tile),
                             config.adds_dq ? " dq" : "");
  source.stub = fmt::format(
      "// {}\n{}\nusing namespace attnjit::kernel;\n\n"
      "inline constexpr BackwardConfig kConfig{{\n{}}};\n"
      "inline constexpr ScoreShape kScores = kConfig.scores();\n\n"
      "extern \"C\" __global__ void __launch_bounds__(kConfig.num_threads(), kConfig.min_blocks)\n"
      "{}(\n{}) {{\n  {}<kConfig>({});\n}}\n",
      source.title, includes, initialiser(config), kernel.entry, parameters, kernel.function,
      arguments);
  source.text = flatten(source.stub, templates);
  return source;
}

// A kernel whose only parameter is a struct called after its config. The 1 of its launch bounds
// lets it have the registers it needs; ptxas may choose fewer otherwise.
template <class Config>
Source render_small(const char* name, const char* type, std::string title, const Config& config,
                    const TemplateSet& templates) {
  Source source;
  source.entry = name;
  source.title = std::move(title);
  source.stub = fmt::format(
      "// {0}\n#include \"attnjit/{1}.cuh\"\n\nusing namespace attnjit::kernel;\n\n"
      "inline constexpr {2}Config kConfig{{\n{3}}};\n\n"
      "extern \"C\" __global__ void __launch_bounds__(kConfig.num_threads(), 1)\n"
      "{1}(const __grid_constant__ {2}Params params) {{\n  "
      "attnjit::kernel::{1}<kConfig>(params);\n}}\n",
      source.title, name, type, initialiser(config));
  source.text = flatten(source.stub, templates);
  return source;
}

const char* dtype_name(kernel::DType dtype) {
  return dtype == kernel::DType::kFloat16    ? "fp16"
         : dtype == kernel::DType::kBFloat16 ? "bf16"
                                             : "fp32";
}

}  // namespace

std::vector<BackwardFeature> backward_features(const BackwardFamily& family) {
  const problem::Family& f = family.scores;
  std::vector<BackwardFeature> features;
  if (f.seqlens) features.push_back(BackwardFeature::kSeqlens);
  if (f.bias != Extent::kAbsent) features.push_back(BackwardFeature::kBias);
  if (problem::varies_over_keys(f.mask)) {
    features.push_back(BackwardFeature::kByteMask);
  }
  const bool band = f.bounded_left || f.bounded_right;
  features.push_back(band ? BackwardFeature::kBand : BackwardFeature::kLength);
  return features;
}

Source render_backward(const BackwardFamily& family, const kernel::BackwardConfig& config,
                       DbiasMethod method, const TemplateSet& templates) {
  const bool elsewhere = method == DbiasMethod::kKernel;
  return render({.entry = "attn_bwd",
                 .header = "backward_mma.cuh",
                 .function = "backward",
                 .bias_grad = bias_grad_policy(elsewhere ? DbiasMethod::kNone : method, family)},
                family, config, templates);
}

Source render_backward_dq(const BackwardFamily& family, const kernel::BackwardConfig& config,
                          const TemplateSet& templates) {
  return render({.entry = "attn_bwd_dq", .header = "backward_dq.cuh", .function = "backward_dq"},
                family, config, templates);
}

Source render_backward_dbias(const BackwardFamily& family, const kernel::BackwardConfig& config,
                             const TemplateSet& templates) {
  return render({.entry = "attn_bwd_dbias",
                 .header = "backward_dbias.cuh",
                 .function = "backward_dbias",
                 .bias_grad = bias_grad_policy(DbiasMethod::kKernel, family),
                 .planes = true},
                family, config, templates);
}

Source render_mask_classes(const kernel::MaskClassesConfig& config, const TemplateSet& templates) {
  return render_small("mask_classes", "MaskClasses",
                      fmt::format("mask_classes {}{}", config.per_pair ? "qk" : "1k",
                                  config.vectorized ? "" : " scalar"),
                      config, templates);
}

Source render_backward_preprocess(const kernel::BackwardPreprocessConfig& config,
                                  const TemplateSet& templates) {
  return render_small("backward_preprocess", "BackwardPreprocess",
                      fmt::format("backward_preprocess {} dv{}{}", dtype_name(config.dtype),
                                  config.head_dim_v, config.aligned ? "" : " unaligned"),
                      config, templates);
}

Source render_fragment_sum(const kernel::FragmentSumConfig& config, const TemplateSet& templates) {
  return render_small("fragment_sum", "FragmentSum",
                      fmt::format("fragment_sum {} d{}{}", dtype_name(config.dtype),
                                  config.head_dim, config.aligned ? "" : " unaligned"),
                      config, templates);
}

Source render_bias_sum(const kernel::BiasSumConfig& config, const TemplateSet& templates) {
  return render_small(
      "bias_sum", "BiasSum",
      fmt::format("bias_sum {}{}{}", dtype_name(config.dtype), config.vectorized ? "" : " scalar",
                  config.over_queries ? " over queries" : ""),
      config, templates);
}

}  // namespace attnjit::codegen
