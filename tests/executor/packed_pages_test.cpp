// Packed queries beside paged keys: chunks of prompts and single queries in one row of tokens, keys
// where a block table says. Rows of pages that nobody reads hold NaN and infinities in every run.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "mutations.hpp"
#include "packed_problems.hpp"
#include "tile_configs.hpp"

namespace attnjit::executor_test::packed_pages_test {
namespace {

using instance::ProblemSpec;

// Chunks of 70, 33 and 65 queries, one that begins a sequence, three single queries, one of them
// beside no key, an empty sequence and rows of none.
ProblemSpec mixed(std::int64_t page_size, std::int64_t keys = 256) {
  keys = (keys + page_size - 1) / page_size * page_size;
  const auto all = static_cast<std::int32_t>(keys), page = static_cast<std::int32_t>(page_size);
  ProblemSpec spec = packed({0, 70, 71, 72, 72, 105, 106, 171}, {0}, 180, keys);
  spec.cu_seqlens_kv.clear();
  spec.page_size = page_size;
  spec.use_seqlens_kv = true;
  spec.seqlens_kv = {200, all, page, 50, 33, 0, all - page / 2 - 1};
  spec.causal = true;
  spec.diagonal = Diagonal::kBottomRight;
  spec.head_dim = 64;
  return spec;
}

using PackedPages = TileBench;

TEST_CASE_FIXTURE(PackedPages, "packed pages: prompts and single queries, pages of any size") {
  for (const std::int64_t page_size : {1, 3, 16, 64, 100, 256}) {
    expect_right(mixed(page_size), {mma(32, 64), mma(16, 32, 2)});
  }
}

// Three SMs walk over all rows, or one.
TEST_CASE_FIXTURE(PackedPages, "packed pages: the path of Hopper") {
  expect_right(mixed(16), {wgmma(64, 32), wgmma(64, 96), wgmma(128, 128, true)}, 3);
  expect_right(mixed(32), {wgmma(64, 96), wgmma(192, 96)}, 1);
  expect_right(mixed(64), {wgmma(64, 64), wgmma(64, 128), wgmma(64, 32, true)}, 3);
  expect_right(mixed(256, 512), {wgmma(128, 128)});
  ProblemSpec spec = mixed(64);
  spec.head_dim = 40;
  spec.head_dim_v = 192;
  spec.use_sink = true;
  expect_right(spec, {wgmma(128, 64)}, 1);
}

TEST_CASE_FIXTURE(PackedPages, "packed pages: one sequence, no keys, no pages, no rows") {
  ProblemSpec spec = mixed(32, 64);
  spec.batch = 1;
  spec.cu_seqlens_q = {0, 100};
  spec.seqlens_kv = {40};
  expect_right(spec, {"{}", wgmma(64, 64)});
  spec = mixed(32, 64);
  spec.seqlens_kv = {0, -3, 0, 0, 0, 0, 0};
  expect_right(spec, {"{}", wgmma(64, 64)});
  spec.cu_seqlens_q = {0, 0, 0, 0, 0, 0, 0, 0};
  expect_right(spec, {"{}", wgmma(64, 64)});
  spec = mixed(32, 64);
  spec.seqlens_kv.clear();
  spec.seqlen_kv = 0;
  expect_right(spec, {"{}", wgmma(64, 64)});
}

TEST_CASE_FIXTURE(PackedPages, "slow: packed pages: a prefix in common, pack_gqa, more sequences") {
  ProblemSpec spec = mixed(16);
  spec.seqlens_kv = {200, 256, 130, 128, 255, 17, 240};
  spec.shared_pages = 8;
  spec.heads_q = 8;
  expect_right(spec, {R"({"pack_gqa": true, "block_q": 16, "num_warps": 1})", wgmma(64, 96, true)});
  ProblemSpec many = short_sequences(70);
  many.cu_seqlens_kv.clear();
  many.page_size = 16;
  many.seqlen_kv = 48;
  many.use_seqlens_kv = true;
  expect_right(many, {"{}", wgmma(64, 32)});
}

TEST_CASE_FIXTURE(PackedPages, "slow: packed pages: beside all that else enters the scores") {
  for (const std::int64_t page_size : {16, 64}) {
    ProblemSpec spec = mixed(page_size);
    spec.mask = "b1qk";
    spec.bias = "1hqk";
    spec.alibi = "bh";
    spec.softcap = 3.0f;
    spec.window = {90, 3};
    spec.diagonal_offset = -5;
    spec.use_sink = spec.use_seqlens_q = spec.want_row_max = spec.want_max_logits = true;
    spec.operand_queries = 72;
    spec.operand_keys = 192;
    expect_right(spec, {mma(32, 64), wgmma(64, 64)});
    spec.mask = "b11k";
    spec.bias = "s11k/7";
    spec.memory.layout = instance::Layout::kBshd;
    spec.memory.row_padding = 8;
    spec.memory.v_differs = true;
    expect_right(spec, {mma(32, 32), wgmma(64, 128)});
  }
}

// Of as many keys as a row of the table names, it is no row of the keys of all sequences.
TEST_CASE_FIXTURE(PackedPages, "packed pages: a row of keys that all sequences have in common") {
  ProblemSpec spec = with(mixed(16), "1h1k", "111k");
  expect_right(spec, {mma(32, 64), wgmma(64, 64)});
  spec.prepare_mask = true;
  expect_right(spec, {mma(32, 64), wgmma(64, 64)});
}

TEST_CASE_FIXTURE(PackedPages, "packed pages: queries that begin nowhere") {
  Bench bench;
  for (const Begins& begins : kFaulty) {
    ProblemSpec spec = mixed(16);
    spec.batch = static_cast<std::int64_t>(begins.size()) - 1;
    spec.cu_seqlens_q = begins;
    spec.seqlen_q = 90;
    spec.seqlens_kv = {200, 256, 1};
    for (const std::string& config : {mma(32, 64), wgmma(64, 64)}) {
      const std::string text = bench.forward(spec, codegen::find_arch("sm_90a"), config);
      CAPTURE(text);
      CHECK(!leaves_tensors(text));
    }
  }
}

TEST_CASE_FIXTURE(PackedPages, "packed pages: an entry in use that the pool has no page for") {
  expect_no_page(mixed(16), 4, 2);
}

const std::string kKeys = "attnjit/tile/sequence_keys.cuh";

TEST_CASE_FIXTURE(Mutations, "slow: caught: keys in use of another sequence, or of none") {
  const Mutation first{kKeys, "used_kv, sequence", "used_kv, 0"};
  expect_report(first, {mixed(64), mma(32, 64)}, {"copy_async_16: reads 16 bytes"});
  expect_report(first, {mixed(64), wgmma(64, 64)}, {"rows fail"});
  for (const std::string& config : {mma(32, 64), wgmma(64, 64)}) {
    const Run run{mixed(64), config};
    expect_report({kKeys, "sequence < q.num_sequences ?", "sequence >= 0 ?"}, run,
                  {"past the end of seqlens_kv"});
    expect_report({kKeys, "kv.num_rows)", "kv.num_rows / 2)"}, run, {"fail"});
    expect_report({"attnjit/score/paged_keys.cuh", "params.pages + block.batch * params.stride",
                   "params.pages"},
                  run, {"fail"});
  }
  expect_report({"attnjit/forward/wgmma/producer.cuh", "Features::kPacksSequences && !kPaged",
                 "Features::kPacksSequences"},
                {mixed(64), wgmma(64, 64)}, {"tensor_load to it is under way"});
}

}  // namespace
}  // namespace attnjit::executor_test::packed_pages_test
