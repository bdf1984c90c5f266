#include "codegen/render.hpp"

#include <fmt/format.h>

#include "attnjit/error.hpp"
#include "codegen/kernel_dtype.hpp"
#include "codegen/literals.hpp"

namespace attnjit::codegen {
namespace {

using problem::Extent;
using problem::Family;

// How the stub mentions one feature of the forward kernel.
struct FeatureText {
  const char* header;
  std::string parameter_type;  // empty: it has no parameter
  std::string parameter;
  std::string policy;
};

FeatureText feature_text(ForwardFeature feature, const Family& f) {
  switch (feature) {
    case ForwardFeature::kSeqlens:
      return {"seqlens.cuh", "SeqlensParams", "seqlens", "Seqlens"};
    case ForwardFeature::kBias:
      return {"bias.cuh", "OperandParams", "bias",
              fmt::format("Bias<kScores, {}, {}, {}>", literal(kernel_dtype(f.bias_dtype)),
                          literal(f.bias), literal(f.bias_vectorized))};
    case ForwardFeature::kRowBias:
      return {"row_bias.cuh", "OperandParams", "bias",
              fmt::format("RowBias<{}>", literal(kernel_dtype(f.bias_dtype)))};
    case ForwardFeature::kPackedMask:
      return {"packed_mask.cuh", "PackedMaskParams", "mask",
              fmt::format("PackedMask<kScores, {}>", literal(f.mask))};
    case ForwardFeature::kRowMask:
      return {"row_mask.cuh", "OperandParams", "mask", "RowMask<kScores>"};
    case ForwardFeature::kBand:
      return {
          "band.cuh", "BandParams", "band",
          fmt::format("Band<kScores, {}, {}>", literal(f.bounded_left), literal(f.bounded_right))};
    case ForwardFeature::kLength:
      return {"length.cuh", "", "", "Length<kScores>"};
  }
  throw Error(ErrorKind::kInternal, "unknown forward feature");
}

}  // namespace

std::vector<ForwardFeature> forward_features(const Family& f) {
  std::vector<ForwardFeature> features;
  if (f.seqlens) features.push_back(ForwardFeature::kSeqlens);
  if (f.bias == Extent::kPerQuery) {
    features.push_back(ForwardFeature::kRowBias);
  } else if (f.bias != Extent::kAbsent) {
    features.push_back(ForwardFeature::kBias);
  }
  if (f.mask == Extent::kPerQuery) {
    features.push_back(ForwardFeature::kRowMask);
  } else if (f.mask != Extent::kAbsent) {
    features.push_back(ForwardFeature::kPackedMask);
  }
  const bool band = f.bounded_left || f.bounded_right;
  features.push_back(band ? ForwardFeature::kBand : ForwardFeature::kLength);
  return features;
}

kernel::ForwardConfig specialise(const Family& f) {
  const bool adds = problem::varies_over_keys(f.bias);
  return {.dtype = kernel_dtype(f.dtype),
          .head_dim = f.head_dim,
          .head_dim_v = f.head_dim_v,
          .gqa_ratio = f.gqa_ratio,
          .aligned = f.aligned,
          .scale_first = adds || !f.positive_scale,
          .pack_heads = false,
          .block_q = 0,
          .block_kv = 0,
          .num_stages = 0,
          .num_warps = 0,
          .min_blocks = 0,
          .softmax = kernel::SoftmaxPolicy::kMaxFree};
}

std::string describe_tile(const kernel::ForwardConfig& c) {
  return fmt::format("q{}{} kv{} s{} w{} b{}{}", c.block_q, c.pack_heads ? " packed" : "",
                     c.block_kv, c.num_stages, c.num_warps, c.min_blocks,
                     c.softmax == kernel::SoftmaxPolicy::kMaxFree ? " max_free" : "");
}

Source render_forward(const Family& family, const kernel::ForwardConfig& config,
                      const TemplateSet& templates) {
  std::string includes = "#include \"attnjit/forward_mma.cuh\"\n";
  std::string parameters = "    const __grid_constant__ ForwardParams params";
  std::string policies;
  for (const ForwardFeature feature : forward_features(family)) {
    const FeatureText text = feature_text(feature, family);
    includes += fmt::format("#include \"attnjit/score/{}\"\n", text.header);
    if (!text.parameter.empty()) {
      parameters +=
          fmt::format(",\n    const __grid_constant__ {} {}", text.parameter_type, text.parameter);
    }
    policies += fmt::format(",\n                   {}({})", text.policy, text.parameter);
  }
  Source source;
  source.entry = "attn_fwd";
  source.title = fmt::format("attn_fwd {} | {}", problem::describe(family), describe_tile(config));
  source.stub = fmt::format(
      "// {}\n{}\nusing namespace attnjit::kernel;\n\n"
      "inline constexpr ForwardConfig kConfig{{\n{}}};\n"
      "inline constexpr ScoreShape kScores = kConfig.scores();\n\n"
      "extern \"C\" __global__ void __launch_bounds__(kConfig.num_threads(), kConfig.min_blocks)\n"
      "attn_fwd(\n{}) {{\n  forward<kConfig>(params{});\n}}\n",
      source.title, includes, initialiser(config), parameters, policies);
  source.text = flatten(source.stub, templates);
  return source;
}

Source render_mask_pack(const kernel::MaskPackConfig& config, const TemplateSet& templates) {
  Source source;
  source.entry = "mask_pack";
  source.title =
      fmt::format("mask_pack {} | q{} kv{} w{}{}", config.per_pair ? "qk" : "1k", config.block_q,
                  config.block_kv, config.num_warps, config.vectorized ? "" : " scalar");
  source.stub = fmt::format(
      "// {}\n#include \"attnjit/mask_pack.cuh\"\n\nusing namespace attnjit::kernel;\n\n"
      "inline constexpr MaskPackConfig kConfig{{\n{}}};\n\n"
      "extern \"C\" __global__ void __launch_bounds__(kConfig.num_threads())\n"
      "mask_pack(const __grid_constant__ MaskPackParams params) {{\n"
      "  mask_pack<kConfig>(params);\n}}\n",
      source.title, initialiser(config));
  source.text = flatten(source.stub, templates);
  return source;
}

Source render_forward_combine(const kernel::ForwardCombineConfig& config,
                              const TemplateSet& templates) {
  Source source;
  source.entry = "attn_fwd_combine";
  source.title = fmt::format("attn_fwd_combine {} dv{} | w{}",
                             config.dtype == kernel::DType::kFloat16 ? "fp16" : "bf16",
                             config.head_dim_v, config.num_warps);
  source.stub = fmt::format(
      "// {}\n#include \"attnjit/forward_combine.cuh\"\n\nusing namespace attnjit::kernel;\n\n"
      "inline constexpr ForwardCombineConfig kConfig{{\n{}}};\n\n"
      "extern \"C\" __global__ void __launch_bounds__(kConfig.num_threads())\n"
      "attn_fwd_combine(const __grid_constant__ ForwardCombineParams params) {{\n"
      "  forward_combine<kConfig>(params);\n}}\n",
      source.title, initialiser(config));
  source.text = flatten(source.stub, templates);
  return source;
}

}  // namespace attnjit::codegen
