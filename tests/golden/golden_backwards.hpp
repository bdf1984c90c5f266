#pragma once
#include <fmt/format.h>

#include <functional>
#include <string>
#include <vector>

#include "golden/golden_problem.hpp"

namespace attnjit::test {

/// A backward whose generated sources are kept in tests/golden.
struct GoldenBackward {
  std::string name;
  std::string arch;
  Sizes sizes;
  std::function<void(ForwardArgs&)> add;  ///< mask, bias and options; may be empty
  const char* dbias = "";                 ///< its pattern; empty: not wanted
  DType dbias_dtype = DType::kBFloat16;
  bool deterministic = false;
};

inline std::vector<GoldenBackward> golden_backwards() {
  constexpr DType kHalf = DType::kFloat16, kFloat = DType::kFloat32;
  return {
      {"llama3_backward", "sm_90a", {1, 32, 8, 4096, 4096, 128, 128}, make_causal},
      {"bert_backward",
       "sm_80",
       {16, 16, 16, 512, 512, 64, 64, kHalf},
       [](ForwardArgs& a) { a.mask = mask(a, "b11k"); }},
      {"t5_backward",
       "sm_86",
       {4, 12, 12, 512, 512, 64, 64},
       [](ForwardArgs& a) {
         a.bias = bias(a, "1hqk");
         a.scale = 1.0f;
       },
       "1hqk"},
      {"alibi_backward",
       "sm_80",
       {2, 32, 32, 2048, 2048, 128, 128},
       [](ForwardArgs& a) {
         make_causal(a);
         a.bias = operand(a, "1h1k", kFloat);
       },
       "1h1k",
       kFloat},
      {"bloom_backward",
       "sm_90a",
       {2, 32, 32, 2048, 2048, 128, 128},
       [](ForwardArgs& a) {
         make_causal(a);
         a.alibi_slopes = operand(a, "1h11", kFloat);
       }},
      {"triangle_backward",
       "sm_90a",
       {256, 4, 4, 256, 256, 32, 32},
       [](ForwardArgs& a) {
         a.mask = mask(a, "b11k");
         a.bias = bias(a, "1hqk");
       },
       "1hqk",
       DType::kBFloat16,
       true},
      {"swin_windows_backward",
       "sm_90a",
       {2048, 4, 4, 49, 49, 32, 32},
       [](ForwardArgs& a) { a.bias = bias(a, "1hqk"); },
       "1hqk"},
      {"triangle_samples_backward",
       "sm_90a",
       {512, 4, 4, 256, 256, 32, 32},
       [](ForwardArgs& a) {
         a.mask = mask(a, "b11k");
         a.bias = bias(a, "shqk");
       },
       "shqk"},
      {"prepared_mask_backward",
       "sm_90a",
       {2, 8, 8, 1024, 1024, 64, 64},
       [](ForwardArgs& a) { a.prepared_mask = prepared_mask(a, "s1qk"); }},
      {"prepared_padding_backward",
       "sm_80",
       {2, 8, 8, 1024, 1024, 64, 64},
       [](ForwardArgs& a) { a.prepared_mask = prepared_mask(a, "b11k"); }},
      {"packed_training_backward",
       "sm_90a",
       {1, 32, 8, 16384, 16384, 128, 128},
       [](ForwardArgs& a) {
         make_causal(a);
         pack(a);
       }},
      {"packed_bias_backward",
       "sm_80",
       {1, 8, 8, 1024, 1024, 64, 64},
       [](ForwardArgs& a) {
         pack(a);
         a.bias = bias(a, "1hqk");
       },
       "1hqk"},
      {"wide_heads_backward", "sm_120", {1, 8, 4, 2048, 2048, 256, 256}, make_causal, "", {}, true},
      {"odd_width_backward",
       "sm_80",
       {1, 4, 4, 100, 100, 33, 100},
       [](ForwardArgs& a) { a.bias = bias(a, "bhq1"); },
       "bhq1"},
      {"everything_backward",
       "sm_80",
       {2, 8, 2, 300, 500, 96, 64, kHalf},
       [](ForwardArgs& a) {
         a.mask = mask(a, "bgqk");
         a.bias = operand(a, "bhqk", kFloat, 5);
         a.window = {64, 32};
         a.diagonal = Diagonal::kTopLeft;
         a.seqlens_kv = fake_address<std::int32_t>(8);
       },
       "bhqk",
       kFloat},
      {"everything_deterministic_backward",
       "sm_80",
       {2, 8, 2, 300, 500, 96, 64, kHalf},
       [](ForwardArgs& a) {
         a.mask = mask(a, "bgqk");
         a.bias = operand(a, "1hqk", kFloat, 5);
         make_causal(a);
       },
       "1hqk",
       kFloat,
       true},
  };
}

inline void add_backwards(runtime::Engine& engine, GoldenFiles& files) {
  for (const GoldenBackward& golden : golden_backwards()) {
    ForwardArgs forward = forward_args(golden.sizes);
    if (golden.add) golden.add(forward);
    BackwardArgs args = backward_args(forward);
    if (*golden.dbias != '\0') {
      args.dbias = operand(forward, golden.dbias, golden.dbias_dtype, 15);
    }
    args.deterministic = golden.deterministic;
    const auto spec = engine.plan(problem::make_problem(args), codegen::find_arch(golden.arch));
    add_kernels(golden.name + "_" + golden.arch, spec.steps, files);
  }
}

}  // namespace attnjit::test
