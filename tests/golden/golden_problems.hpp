#pragma once
#include <fmt/format.h>

#include <string>
#include <vector>

#include "golden/golden_backwards.hpp"
#include "golden/golden_formulas.hpp"
#include "golden/golden_problem.hpp"
#include "launch/merge_plan.hpp"

namespace attnjit::test {

inline std::vector<GoldenProblem> golden_problems() {
  constexpr DType kHalf = DType::kFloat16;
  const auto sizes = [](std::int64_t batch, std::int64_t heads_q, std::int64_t heads_kv,
                        std::int64_t seqlen_q, std::int64_t seqlen_kv, std::int64_t head_dim,
                        std::int64_t head_dim_v = 0, DType dtype = DType::kBFloat16) {
    if (head_dim_v == 0) head_dim_v = head_dim;
    return Sizes{batch, heads_q, heads_kv, seqlen_q, seqlen_kv, head_dim, head_dim_v, dtype};
  };
  return {
      {"llama3_prefill", "sm_80", sizes(1, 32, 8, 4096, 4096, 128), make_causal},
      {"llama3_decode", "sm_90a", sizes(8, 32, 8, 1, 8192, 128), make_causal},
      {"mistral_window", "sm_80", sizes(1, 32, 8, 8192, 8192, 128),
       [](ForwardArgs& a) {
         make_causal(a);
         a.window.left = 4095;
       }},
      {"bert_padding", "sm_80", sizes(16, 16, 16, 512, 512, 64, 0, kHalf),
       [](ForwardArgs& a) { a.mask = mask(a, "b11k"); }},
      {"t5_relative_bias", "sm_86", sizes(4, 12, 12, 512, 512, 64),
       [](ForwardArgs& a) {
         a.bias = bias(a, "1hqk");
         a.scale = 1.0f;
       }},
      {"alibi", "sm_80", sizes(2, 32, 32, 2048, 2048, 128),
       [](ForwardArgs& a) {
         make_causal(a);
         a.bias = operand(a, "1h1k", DType::kFloat32);
       }},
      {"bloom", "sm_80", sizes(1, 32, 32, 2048, 2048, 128),
       [](ForwardArgs& a) {
         make_causal(a);
         a.alibi_slopes = operand(a, "1h11", DType::kFloat32);
       }},
      {"triangle_attention", "sm_90a", sizes(256, 4, 4, 256, 256, 32),
       [](ForwardArgs& a) {
         a.mask = mask(a, "b11k");
         a.bias = bias(a, "1hqk");
       }},
      {"triangle_samples", "sm_90a", sizes(512, 4, 4, 256, 256, 32),
       [](ForwardArgs& a) {
         a.mask = mask(a, "b11k");
         a.bias = bias(a, "shqk");
       }},
      {"swin_windows", "sm_90a", sizes(2048, 4, 4, 49, 49, 32),
       [](ForwardArgs& a) { a.bias = bias(a, "1hqk"); }},
      {"qk_clip", "sm_90a", sizes(1, 16, 16, 4096, 4096, 192, 128),
       [](ForwardArgs& a) {
         make_causal(a);
         a.max_logits = fake_address<float>(7);
       }},
      {"image_self", "sm_89", sizes(2, 8, 8, 4096, 4096, 40, 0, kHalf), {}},
      {"image_cross", "sm_86", sizes(2, 8, 8, 4096, 77, 80, 0, kHalf), {}},
      {"latent_prefill", "sm_90a", sizes(1, 16, 16, 4096, 4096, 192, 128), make_causal},
      {"wide_heads", "sm_120", sizes(1, 8, 4, 2048, 2048, 256), make_causal},
      {"odd_width", "sm_80", sizes(1, 4, 4, 100, 100, 33, 100), {}},
      {"unaligned_base", "sm_80", sizes(1, 4, 4, 256, 256, 64),
       [](ForwardArgs& a) { a.k.data = static_cast<char*>(a.k.data) + 2; }},
      {"negative_scale", "sm_80", sizes(1, 4, 4, 256, 256, 64),
       [](ForwardArgs& a) { a.scale = -1.0f; }},
      {"ragged_batch", "sm_90a", sizes(16, 32, 8, 512, 512, 128),
       [](ForwardArgs& a) {
         make_causal(a);
         a.seqlens_q = fake_address<std::int32_t>(7);
         a.seqlens_kv = fake_address<std::int32_t>(8);
       }},
      {"packed_training", "sm_90a", sizes(1, 32, 8, 16384, 16384, 128),
       [](ForwardArgs& a) {
         make_causal(a);
         pack(a);
       }},
      {"packed_keys", "sm_80", sizes(1, 8, 8, 4096, 4096, 64),
       [](ForwardArgs& a) {
         pack(a);
         a.mask = mask(a, "111k");
         a.bias = bias(a, "1h1k");
       }},
      {"paged_decode", "sm_90a", sizes(64, 32, 8, 1, 4096, 128),
       [](ForwardArgs& a) { page_keys(a, 16); }},
      {"paged_prefill", "sm_90a", sizes(2, 32, 8, 512, 4096, 128),
       [](ForwardArgs& a) {
         make_causal(a);
         page_keys(a, 64);
       }},
      {"paged_drafts", "sm_80", sizes(8, 32, 8, 32, 4096, 128),
       [](ForwardArgs& a) {
         page_keys(a, 256);
         a.tail_mask = tail_mask(a);
       }},
      {"paged_mixed_batch", "sm_90a", sizes(64, 32, 8, 64, 4096, 128),
       [](ForwardArgs& a) {
         make_causal(a);
         page_keys(a, 16);
         pack_queries(a);
       }},
      {"paged_mixed_mask", "sm_80", sizes(8, 32, 8, 32, 4096, 128),
       [](ForwardArgs& a) {
         page_keys(a, 256);
         pack_queries(a);
         a.mask = Tensor::contiguous(fake_address(4), DType::kBool, {8, 1, 32, 4096});
       }},
      {"prepared_mask", "sm_90a", sizes(2, 8, 8, 1024, 1024, 64),
       [](ForwardArgs& a) { a.prepared_mask = prepared_mask(a, "bhqk"); }},
      {"full_mask", "sm_80", sizes(2, 8, 8, 1024, 1024, 64),
       [](ForwardArgs& a) { a.mask = mask(a, "bhqk"); }},
      {"tree_mask_decode", "sm_90a", sizes(4, 64, 8, 16, 2048, 128),
       [](ForwardArgs& a) {
         a.mask = mask(a, "b1qk");
         a.mask->strides[2] = 2049;  // scalar
       }},
      {"query_mask", "sm_80", sizes(2, 8, 8, 512, 512, 64),
       [](ForwardArgs& a) { a.mask = mask(a, "b1q1"); }},
      {"query_bias", "sm_80", sizes(2, 8, 8, 512, 512, 64),
       [](ForwardArgs& a) { a.bias = bias(a, "bhq1"); }},
      {"everything", "sm_120", sizes(2, 8, 2, 300, 500, 96, 64, kHalf),
       [](ForwardArgs& a) {
         a.mask = mask(a, "bgqk");
         a.bias = operand(a, "bhqk", DType::kFloat32, 5);
         a.bias->strides[3] = 2;  // scalar
         a.window = {64, 32};
         a.diagonal = Diagonal::kTopLeft;
         a.seqlens_kv = fake_address<std::int32_t>(8);
       }},
  };
}

inline void add_forwards(runtime::Engine& engine, GoldenFiles& files) {
  for (const GoldenProblem& golden : golden_problems()) {
    ForwardArgs args = forward_args(golden.sizes);
    if (golden.add) golden.add(args);
    const auto spec = engine.plan(problem::make_problem(args), codegen::find_arch(golden.arch));
    add_kernels(golden.name + "_" + golden.arch, spec.steps, files);
  }
}

inline void add_merges(GoldenFiles& files) {
  const problem::MergeKey keys[] = {
      {DType::kBFloat16, DType::kBFloat16, 128, true, false},
      {.part_dtype = DType::kFloat16, .dtype = DType::kFloat32, .head_dim_v = 33, .carry = true}};
  for (const problem::MergeKey& key : keys) {
    const auto spec = launch::make_merge_plan_spec(key, {});
    add_kernels(key.carry ? "merge_carry" : "merge", spec.steps, files);
  }
}

/// All files under tests/golden.
inline GoldenFiles golden_files() {
  runtime::Engine engine(base::parse_environment([](const char*) { return std::nullopt; }));
  GoldenFiles files;
  add_forwards(engine, files);
  add_backwards(engine, files);
  add_merges(files);
  add_formulas(files);
  return files;
}

}  // namespace attnjit::test
