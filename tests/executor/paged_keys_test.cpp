// Paged keys: pages of any size at any place, entries and rows past the keys in use, and masks over
// the last keys. Pages that no entry in use names hold NaN and infinities in every run.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "attnjit/score/paged_keys_params.h"
#include "block.hpp"
#include "executor/host_kernel.hpp"
#include "mutations.hpp"
#include "tile_configs.hpp"

namespace attnjit::executor_test {
namespace {

using instance::ProblemSpec;

// Lengths 0, all, one key, and both sides of a page's end.
ProblemSpec paged(std::int64_t page_size, std::int64_t keys = 256) {
  keys = (keys + page_size - 1) / page_size * page_size;
  const auto all = static_cast<std::int32_t>(keys), page = static_cast<std::int32_t>(page_size);
  ProblemSpec spec{
      .batch = 6, .heads_q = 4, .heads_kv = 2, .seqlen_q = 20, .seqlen_kv = keys, .head_dim = 64};
  spec.page_size = page_size;
  spec.use_seqlens_kv = true;
  spec.seqlens_kv = {0, all, 1, page, page + 1, all - page / 2 - 1};
  spec.causal = true;
  spec.diagonal = Diagonal::kBottomRight;
  return spec;
}

using PagedKeys = TileBench;

TEST_CASE_FIXTURE(PagedKeys,
                  "slow: paged keys: pages of one key, a prime, parts of a tile and whole ones") {
  for (const std::int64_t page_size : {1, 3, 7, 16, 64, 100, 128, 256}) {
    expect_right(paged(page_size), {mma(32, 64), mma(16, 32, 2)});
  }
}

// A tile is a part of a page or several pages, and two SMs walk over all rows.
TEST_CASE_FIXTURE(PagedKeys, "paged keys: the path of Hopper") {
  expect_right(paged(32), {wgmma(64, 32), wgmma(64, 96), wgmma(128, 128, true)});
  expect_right(paged(64), {wgmma(64, 64), wgmma(64, 128), wgmma(64, 32, true)});
  expect_right(paged(192, 384), {wgmma(64, 64), wgmma(192, 96)});
  expect_right(paged(256, 512), {wgmma(64, 128)});
  expect_right(paged(16), {wgmma(64, 32), wgmma(64, 96), wgmma(128, 128, true)});
  ProblemSpec spec = paged(64);
  spec.head_dim = 40;
  spec.head_dim_v = 192;
  spec.use_sink = true;
  expect_right(spec, {wgmma(128, 64)});
}

TEST_CASE_FIXTURE(PagedKeys, "paged keys: no keys, no pages, one page") {
  ProblemSpec spec = paged(32, 32);
  spec.seqlens_kv = {0, 0, 0, 0, 0, 0};
  expect_right(spec, {"{}", wgmma(64, 64)});
  spec.seqlens_kv = {-5, 40, 32, 0, 1, 31};
  expect_right(spec, {"{}", wgmma(64, 64)});
  spec.seqlens_kv.clear();
  spec.seqlen_kv = 0;
  expect_right(spec, {"{}", wgmma(64, 64)});
}

TEST_CASE_FIXTURE(PagedKeys, "paged keys: a prefix that batch elements share") {
  ProblemSpec spec = paged(16);
  spec.seqlens_kv = {200, 256, 130, 128, 255, 17};
  spec.shared_pages = 8;
  expect_right(spec, {mma(32, 64)});
  expect_right(spec, {wgmma(64, 128)});
  spec.page_size = 64;
  spec.shared_pages = 2;
  expect_right(spec, {mma(32, 64), wgmma(64, 128)});
}

TEST_CASE_FIXTURE(PagedKeys, "paged keys: one query, pack_gqa, split keys") {
  for (const std::int64_t page_size : {16, 64}) {
    ProblemSpec spec = paged(page_size, 1500);
    spec.batch = 2;
    spec.seqlens_kv = {1499, 700};
    spec.heads_q = 8;
    spec.seqlen_q = 1;
    expect_right(spec, {"{}", R"({"pack_gqa": true, "block_q": 16, "num_warps": 1})"});
    spec.seqlen_q = 30;
    expect_right(spec, {wgmma(64, 64, true)});
  }
}

TEST_CASE_FIXTURE(
    PagedKeys,
    "slow: paged keys: memory in either order, gaps, long rows of the table, odd bases") {
  for (const std::int64_t page_size : {16, 64}) {
    ProblemSpec spec = paged(page_size);
    spec.memory.layout = instance::Layout::kBshd;
    spec.memory.row_padding = 8;
    spec.memory.v_differs = true;
    expect_right(spec, {mma(32, 64)});
    expect_right(spec, {wgmma(64, 64)});
    spec.memory.base_offset = 3;
    expect_right(spec, {mma(32, 64)});
  }
}

TEST_CASE_FIXTURE(PagedKeys, "slow: paged keys: beside all that else enters the scores") {
  for (const std::int64_t page_size : {16, 64}) {
    ProblemSpec spec = paged(page_size);
    spec.mask = "b1qk";
    spec.bias = "1hqk";
    spec.alibi = "bh";
    spec.softcap = 3.0f;
    spec.window = {90, 3};
    spec.diagonal_offset = -5;
    spec.use_sink = spec.use_seqlens_q = spec.poison_dropped_keys = true;
    expect_right(spec, {mma(32, 64)});
    expect_right(spec, {wgmma(64, 64)});
    spec.mask = "b11k";
    spec.tail_mask = "b";
    expect_right(spec, {mma(32, 32)});
    expect_right(spec, {wgmma(64, 128)});
  }
}

TEST_CASE_FIXTURE(PagedKeys, "slow: paged keys: wide heads, and rows of no multiple of eight") {
  ProblemSpec spec = paged(16);
  spec.head_dim = 256;
  expect_right(spec);
  spec.head_dim = 33;
  expect_right(spec);
  spec = paged(3);
  spec.head_dim = 80;  // idle threads in a pass
  expect_right(spec, {mma(16, 64), mma(16, 32, 3)});
  spec = paged(128);
  spec.head_dim = 256;
  expect_right(spec, {"{}", wgmma(64, 64)});
}

// Lengths below Lq leave columns before key 0.
TEST_CASE_FIXTURE(PagedKeys, "slow: tail mask: with pages and without, on both paths") {
  for (const char* pattern : {"b", "1"}) {
    ProblemSpec spec = paged(64);
    spec.causal = false;
    spec.tail_mask = pattern;
    const std::vector<std::string> configs = {mma(32, 64), mma(16, 32, 2), wgmma(64, 64)};
    expect_right(spec, configs);
    spec.page_size = 0;
    expect_right(spec, configs);
    spec.seqlen_q = 150;
    spec.heads_q = 2;
    expect_right(spec, {mma(64, 32), wgmma(128, 128)});
    spec.use_seqlens_kv = false;
    spec.seqlens_kv.clear();
    spec.memory.row_padding = 5;
    spec.seqlen_q = 7;
    spec.heads_q = 8;
    expect_right(spec, {R"({"pack_gqa": true, "block_q": 32, "num_warps": 2})"});
    spec.memory.row_padding = 8;
    expect_right(spec, {wgmma(64, 128, true)});
  }
}

TEST_CASE_FIXTURE(PagedKeys, "paged keys: an entry in use that the pool has no page for") {
  ProblemSpec spec = paged(16, 64);
  spec.batch = 1;
  spec.seqlens_kv = {64};
  expect_no_page(spec, 0, 2);
}

// Pages at both ends of pools of more than 2^31 elements: as kernels find their rows, and with what
// coordinates the copy engine does.
TEST_CASE("paged keys: offsets of 64 bits") {
  const std::string text = R"(
#include "attnjit/score/paged_keys.cuh"

extern "C" __global__ void addresses(const attnjit::kernel::PagedKeysParams params,
                                     const attnjit::kernel::RowStrides strides,
                                     attnjit::kernel::int64* found) {
  using namespace attnjit::kernel;
  PagedKeys<32> pages(params);
  Block block{};
  block.batch = 1;
  pages.begin(block);
  const auto* const head = reinterpret_cast<const uint16*>(int64{1} << 32);
  const auto all = pages.find_pages<96>(0, {0, 96});
  for (int i = 0; i < 3; ++i) {
    const int page = all.at(i);
    if (ptx::thread_index() != 0) continue;
    ptx::store_global(found + i, static_cast<int64>(pages.address(head, strides, 40 * i, page) - head));
  }
  const auto tile = pages.tile_source(PagedTile<96, 32>{0, 3, pages.find_pages<96>(0, {0, 64})});
  if (ptx::thread_index() != 0) return;
  for (int i = 0; i < 3; ++i) ptx::store_global(found + 3 + i, static_cast<int64>(tile.batch[i]));
}
)";
  Bench bench;
  const executor::HostKernel kernel(executor::HostCompiler().compile(
      bench.executor().host_source({.entry = "addresses", .title = "addresses", .stub = text})));
  const std::vector<std::int32_t> table = {-1, -1, -1, 0, 8'000'000, 2'147'483'647};
  std::vector<std::int64_t> found(6);
  kernel::PagedKeysParams params{table.data(), 3};
  kernel::RowStrides strides{32 * 128, 0, 128};
  std::int64_t* results = found.data();
  void* const parameters[] = {&params, &strides, &results};
  executor::GlobalMemory memory;
  memory.add("block_table",
             executor::view_of(const_cast<std::int32_t*>(table.data()), {1, 1, 2, 3}), 4,
             executor::TensorRole::kInput);
  memory.add("found", executor::view_of(results, {1, 1, 1, 6}), 8, executor::TensorRole::kOutput);
  CHECK(executor::run_block(kernel.function(), 32, parameters, memory) == "");
  CHECK(found == std::vector<std::int64_t>{0, 8'000'000ll * 4096 + 8 * 128,
                                           2'147'483'647ll * 4096 + 16 * 128, 0, 8'000'000, -1});
}

const std::string kPages = "attnjit/score/paged_keys.cuh";
const std::string kTail = "attnjit/score/tail_mask.cuh";

// Lengths of several pages, so that elements read each other's where the table is misread.
ProblemSpec long_rows(std::int64_t page_size) {
  ProblemSpec spec = paged(page_size);
  spec.seqlens_kv = {200, 256, 130, 128, 255, 17};
  return spec;
}

TEST_CASE_FIXTURE(Mutations, "caught: pages of another batch element, another page, another row") {
  const Run run{long_rows(16), mma(32, 64)};
  expect_report({kPages, "params.pages + block.batch * params.stride", "params.pages"}, run,
                {"copy_async_16: reads 16 bytes"});
  expect_report({kPages, "(pages + page)", "(pages + (page ^ 1))"}, run,
                {"copy_async_16: reads 16 bytes"});
  expect_report({kPages, "(row - first) * row_stride", "row * row_stride"}, run, {"fails"});
  expect_report({kPages, "address(head, strides, first_key + row, page)",
                 "address(head, strides, first_key, page)"},
                {long_rows(7), mma(32, 64)}, {"lse of 20 rows fails"});
  expect_report({"attnjit/tile/tile_pages.cuh", "index / 32 == i", "false"},
                {long_rows(1), mma(32, 64)}, {"fails"});
}

TEST_CASE_FIXTURE(Mutations, "caught: entries past the keys in use") {
  const std::string past = "past the end of block_table [6, 1, 1, ";
  expect_report({kPages, "page < end", "true"}, {paged(16, 208), mma(32, 64)}, {past + "13]"});
  expect_report({kPages, "page < end", "true"}, {paged(32), wgmma(64, 96)}, {past + "8]"});
}

TEST_CASE_FIXTURE(Mutations, "slow: caught: pages of the copy engine at another place of a tile") {
  expect_report({"attnjit/tile/strided_keys.cuh", "tile + i * kPageKeys",
                 "tile + (kPages - 1 - i) * kPageKeys"},
                {long_rows(32), wgmma(64, 96)}, {"lse of 20 rows fails"});
  ProblemSpec spec = long_rows(16);
  spec.mask = "b11k";
  spec.poison_dropped_keys = true;
  expect_report(
      {"attnjit/tile/unread_keys.cuh", "row - within + StridedKeyOrder", "StridedKeyOrder"},
      {spec, wgmma(64, 64)}, {"20 rows fail"});
  spec.poison_dropped_keys = false;
  spec.mask = "b1qk";
  expect_report({"attnjit/score/mask_bits.cuh", "2 * g + 1] >> nibble", "2 * g] >> nibble"},
                {spec, wgmma(64, 64)}, {"fails"});
}

TEST_CASE_FIXTURE(Mutations,
                  "slow: caught: a tail that begins elsewhere, and tiles that leave it out") {
  ProblemSpec spec = paged(64);
  spec.causal = false;
  spec.tail_mask = "b";
  for (const std::string& config : {mma(32, 64), wgmma(64, 64)}) {
    const Run run{spec, config};
    expect_report({kTail, "block.kv_len - block.seqlen_q;", "block.kv_len - block.seqlen_q + 1;"},
                  run, {"fails"});
    expect_report({kTail, "(tile + 1) * kShape.keys() > tail", "tile * kShape.keys() > tail"}, run,
                  {"fails"});
    expect_report({kTail, "drops & (inside == at)", "drops"}, run, {"fails"});
    expect_report(
        {kTail, "const int last = block.seqlen_q - 1;", "const int last = block.seqlen_q;"}, run,
        {"past the end of tail_mask"});
  }
}

}  // namespace
}  // namespace attnjit::executor_test
