// Selected keys: both passes and paths, indices of every axis and dtype, faulty ones, beside other
// features.
#include <doctest/doctest.h>

#include "both_passes.hpp"

namespace attnjit::executor_test::key_selection_test {
namespace {

using instance::ProblemSpec;

ProblemSpec selecting(const char* key_indices) {
  ProblemSpec spec{
      .batch = 2, .heads_q = 4, .heads_kv = 2, .seqlen_q = 90, .seqlen_kv = 300, .head_dim = 64};
  spec.key_indices = key_indices;
  spec.poison_dropped_keys = true;
  return spec;
}

class SelectedKeys : public BothPasses {};

TEST_CASE_FIXTURE(SelectedKeys, "selected keys: every axis and dtype, both passes and paths") {
  for (const char* indices : {"topk:70", "faulty:90/bg/int64", "faulty:70/1g", "topk:64/b1/int64",
                              "faulty:130/11", "topk:0", "topk:310"}) {
    expect_both_right(selecting(indices));
  }
}

TEST_CASE_FIXTURE(SelectedKeys, "selected keys: causal, windows and lengths of all keys") {
  ProblemSpec spec = selecting("faulty:120");
  spec.causal = true;
  spec.diagonal = Diagonal::kBottomRight;
  expect_both_right(spec);
  spec.use_seqlens_q = spec.use_seqlens_kv = true;
  expect_both_right(spec);
  spec.causal = false;
  spec.window = {70, 20};
  spec.diagonal = Diagonal::kTopLeft;
  spec.diagonal_offset = 30;
  expect_both_right(spec);
}

TEST_CASE_FIXTURE(SelectedKeys, "selected keys: masks, biases, slopes and sinks at their numbers") {
  ProblemSpec spec = selecting("faulty:100/bg/int64");
  spec.mask = "bhqk";
  spec.bias = "1hqk";
  spec.use_sink = true;
  expect_both_right(spec);
  spec.mask = "b11k";
  spec.bias = "bgq1";
  spec.bias_dtype = DType::kFloat32;
  spec.softcap = 2.0f;
  spec.alibi = "bh";
  spec.diagonal = Diagonal::kBottomRight;
  expect_both_right(spec);
}

TEST_CASE_FIXTURE(SelectedKeys, "selected keys: expressions read their numbers") {
  ProblemSpec spec = selecting("topk:80/1g");
  spec.keep = "j % 3 != 1 && j <= i + off + 40 && i < Lk";
  spec.score = "s + rel[h, clamp(j - i, -20, 20) + 20] - 0.01 * float(Lk - j)";
  spec.diagonal = Diagonal::kBottomRight;
  spec.operands = {instance::parse_operand("rel=fp32:h,41")};
  spec.key_offset = 5;
  expect_both_right(spec);
  ProblemSpec backward = gradients(spec);
  backward.grad = {"rel"};
  expect_right(backward);
}

TEST_CASE_FIXTURE(SelectedKeys, "selected keys: unaligned rows, values of another size, no rows") {
  ProblemSpec spec = selecting("faulty:70");
  spec.head_dim = 20;
  spec.head_dim_v = 37;
  spec.dtype = DType::kFloat16;
  spec.memory.row_padding = 3;
  expect_right(spec);
  expect_right(gradients(spec));
  spec = selecting("topk:70");
  spec.memory.layout = instance::Layout::kBshd;
  spec.memory.v_differs = true;
  expect_both_right(spec);
  spec.seqlen_q = 1;  // keys are split
  expect_right(spec);
  spec.seqlen_q = 0;
  expect_right(gradients(spec));
}

// A forward of few rows.
ProblemSpec in_place(const char* key_indices, std::int64_t rows) {
  ProblemSpec spec = selecting(key_indices);
  spec.seqlen_q = rows;
  return spec;
}

TEST_CASE_FIXTURE(SelectedKeys, "selected keys in place: every axis, dtype and number of rows") {
  for (const std::int64_t rows : {1, 8, 32}) {
    for (const char* indices :
         {"faulty:90/bg/int64", "faulty:150", "topk:70/1g", "faulty:64/11", "topk:0"}) {
      ProblemSpec spec = in_place(indices, rows);
      spec.use_seqlens_kv = rows == 8;
      expect_right(spec, R"({"pack_gqa": true})");
    }
  }
}

TEST_CASE_FIXTURE(SelectedKeys, "selected keys in place: what depends on their numbers") {
  ProblemSpec spec = in_place("faulty:100/bg/int64", 8);
  spec.mask = "bhqk";
  spec.bias = "1hqk";
  spec.softcap = 2.0f;
  expect_right(spec);
  spec.mask = "b11k";
  spec.alibi = "h";
  spec.diagonal = Diagonal::kTopLeft;
  spec.diagonal_offset = 100;
  spec.causal = spec.use_sink = true;
  spec.use_seqlens_q = spec.use_seqlens_kv = true;
  expect_right(spec);
  spec.diagonal = Diagonal::kBottomRight;  // which needs the number of all keys: copies
  expect_right(spec);
  spec = in_place("faulty:77", 30);
  spec.head_dim = 20;
  spec.head_dim_v = 37;
  spec.memory.row_padding = 3;
  spec.keep = "j % 3 != 1";
  expect_right(spec);
}

TEST_CASE_FIXTURE(SelectedKeys, "caught in selected keys in place") {
  ProblemSpec spec = in_place("faulty:90/bg/int64", 8);
  spec.use_seqlens_kv = true;
  const auto caught = [&](const char* text, const char* other, const char* report) {
    expect_report({"attnjit/score/selected_keys.cuh", text, other}, {spec}, {report});
  };
  caught("row >= 0 && row < keys_end ? static_cast<int>(row)",
         "row < keys_end ? static_cast<int>(row)", "rows fail");
  caught("key >= 0 && keep(row)", "keep(row)", "before the start of");
  caught("score = -ptx::infinity()", "score = score", "rows fail");
  caught("/ kShape.gqa_ratio", "", "past the end of key_indices");
}

TEST_CASE_FIXTURE(SelectedKeys, "caught in selected keys") {
  ProblemSpec spec = selecting("faulty:90");
  spec.use_seqlens_kv = true;
  ProblemSpec wide = selecting("faulty:90/bg/int64"), bounded = selecting("topk:70");
  bounded.causal = true;
  bounded.diagonal = Diagonal::kBottomRight;
  const auto caught = [&](const char* text, const char* other, const ProblemSpec& of,
                          const char* report) {
    const char* const file =
        of.backward ? "attnjit/backward/scatter_keys.cuh" : "attnjit/prepass/gather_keys.cuh";
    expect_report({file, text, other}, {of}, {report});
  };
  const char* const in_use = "key >= 0 && key < keys_in_use(place.batch)";
  caught(in_use, "key >= 0", spec, "past the end of");
  caught(in_use, "key < keys_in_use(place.batch)", wide, "rows fail");
  caught("static_cast<int32>(key)", "static_cast<int32>(key + 1)", spec, "rows fail");
  caught("write_key_numbers();", "", bounded, "never written");
  spec = gradients(spec);
  caught("ptx::block_sync();  // no thread counts before all words are 0", "", spec,
         "never written");
  caught("ptx::block_sync();  // the counts of all threads are there", "", spec,
         "with no barrier of the block in between");
  caught("if (count > 1) part", "if (count > 2) part", spec, "rows fail");
  caught("sums[i] += element", "sums[i] = element", spec, "rows fail");
  caught("first + key < params.num_keys", "true", spec, "written already");
}

}  // namespace
}  // namespace attnjit::executor_test::key_selection_test
