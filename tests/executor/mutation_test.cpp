// Tests of the executor's checks: removes one safeguard from a kernel at a time, and expects the
// report that this must lead to.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "mutations.hpp"

namespace attnjit::executor_test::mutation_test {
namespace {

using instance::ProblemSpec;

const std::string kForward = "attnjit/forward/mma/kernel.cuh";
const std::string kTiles = "attnjit/forward/mma/tiles.cuh";
const std::string kCombine = "attnjit/forward/combine.cuh";
const std::string kMaskToBits = "attnjit/prepass/mask_to_bits.cuh";
const std::string kCopy = "attnjit/tile/copy.cuh";
const std::string kBias = "attnjit/score/bias.cuh";
const std::string kOperand = "attnjit/score/operand.cuh";

// Rows and keys end within a tile, and there are two tiles of each.
const ProblemSpec kSmall = {.seqlen_q = 70, .seqlen_kv = 100, .head_dim = 64};
// One query over keys that several thread blocks share.
const ProblemSpec kDecode = {.seqlen_q = 1, .seqlen_kv = 700, .head_dim = 64};

const std::string kAlternating = R"({"num_stages": 1, "block_q": 64, "block_kv": 32})";
const std::string kRing = R"({"num_stages": 2, "block_q": 64, "block_kv": 32})";

TEST_CASE_FIXTURE(Mutations, "caught: a row past the end of a tensor") {
  expect_report(
      {kTiles, "key < keys.end && features.reads_key(key)",
       "key <= keys.end && features.reads_key(key)"},
      {kSmall},
      {"attn_fwd, block ", "copy_async_16: reads 16 bytes", "past the end of k [1, 1, 100, 64]"});
  expect_report(
      {kTiles, "block.first_row + row < block.end_row", "block.first_row + row <= block.end_row"},
      {kSmall}, {"copy_async_16: reads 16 bytes", "past the end of q [1, 1, 70, 64]"});
  expect_report(
      {kForward, "block.num_rows - block.first_row);", "block.num_rows - block.first_row + 1);"},
      {kSmall}, {"store_global: writes 16 bytes", "past the end of out [1, 1, 70, 64]"});
}

TEST_CASE_FIXTURE(Mutations, "caught: columns past the end of a row") {
  ProblemSpec narrow = kSmall;
  narrow.head_dim = 40;
  narrow.memory.row_padding = 8;
  expect_report({kCopy, "chunk * 8 < kColumns && keep(first + row)", "keep(first + row)"}, {narrow},
                {"copy_async_16: reads 16 bytes", "lies between its rows"});
  expect_report({kCopy, "row >= rows || chunk * 8 >= kColumns", "row >= rows"}, {narrow},
                {"store_global: writes 16 bytes", "lies between its rows"});
}

TEST_CASE_FIXTURE(Mutations, "caught: a bias read past its end") {
  ProblemSpec spec = kSmall;
  spec.bias = "11qk";
  spec.seqlen_kv = 99;  // too odd for wide loads
  expect_report({kBias, "row < num_rows ? row :", "row <= num_rows ? row :"}, {spec},
                {"load_global: reads 2 bytes", "past the end of bias [1, 1, 70, 99]"});
  expect_report({kOperand, "if (key + i >= seqlen_kv) continue;\n      constexpr",
                 "if (key + i > seqlen_kv) continue;\n      constexpr"},
                {spec}, {"load_global: reads 2 bytes", "past the end of bias [1, 1, 70, 99]"});
  spec.seqlen_kv = 104;
  expect_report({kOperand, "key + kSpan * s + kKeys <= keys", "true"}, {spec},
                {"load_global: reads 16 bytes", "past the end of bias [1, 1, 70, 104]"});
}

TEST_CASE_FIXTURE(Mutations, "caught: a barrier that is missing") {
  const std::string no_barrier = "with no barrier of the block in between";
  expect_report(
      {kForward, "ptx::block_sync();  // K has arrived; all warps have read the previous V", ""},
      {kSmall, kAlternating},
      {"load_fragment_a: reads shared memory at +", "which was never written"});
  expect_report({kForward, "ptx::block_sync();  // V has arrived; all warps have read this K", ""},
                {kSmall, kAlternating}, {"copy_async_16: writes shared memory at +", no_barrier});
  expect_report(
      {kForward,
       "ptx::block_sync();  // this tile has arrived; all warps have read the previous one", ""},
      {kSmall, kRing}, {"load_fragment_a: reads shared memory at +", "which was never written"});
  expect_report({kForward, "ptx::block_sync();  // O is complete", ""}, {kSmall},
                {"attn_fwd, block 0, thread ", "shared memory at +", no_barrier});
  expect_report({kCombine, "ptx::block_sync();  // the sums of all warps are there", ""}, {kDecode},
                {"attn_fwd_combine, block 0, thread ", "load_shared_4: reads shared memory at +",
                 no_barrier});
  // Rows of O that lie where other warps have their rows of Q.
  ProblemSpec wide_values = kSmall;
  wide_values.head_dim_v = 128;
  expect_report({kForward, "ptx::block_sync();  // all warps have read Q, which O overwrites", ""},
                {wide_values, kRing}, {"store_shared_4: writes shared memory at +", no_barrier});
}

TEST_CASE_FIXTURE(Mutations, "caught: a barrier that not all threads reach") {
  ProblemSpec spec = kSmall;
  spec.mask = "11qk";
  const std::string sync = "ptx::block_sync();  // the words of all rows are there";
  expect_report({kMaskToBits, sync,
                 "if (!(ptx::thread_index() < 32 && ptx::block_any(true))) ptx::block_sync();"},
                {spec},
                {"mask_to_bits, block ",
                 "block_sync: meets threads that wait in block_any: not all take the same way"});
}

TEST_CASE_FIXTURE(Mutations, "caught: a copy that is not waited for") {
  const std::string no_wait = "copy_async_wait is missing";
  expect_report({kForward, "ptx::copy_async_wait<0>();\n      ptx::block_sync();  // K has arrived",
                 "ptx::block_sync();  // K has arrived"},
                {kSmall, kAlternating}, {"load_fragment_a: reads shared memory at +", no_wait});
  expect_report(
      {kForward, "ptx::copy_async_wait<0>();\n        ptx::block_sync();  // V has arrived",
       "ptx::block_sync();  // V has arrived"},
      {kSmall, kAlternating}, {"load_fragment_b_transposed: reads shared memory at +", no_wait});
  expect_report({kForward, "copy_async_wait<kStages - 2>", "copy_async_wait<kStages - 1>"},
                {kSmall, kRing}, {"load_fragment_a: reads shared memory at +", no_wait});
  // A block without a key does not wait in its main loop.
  ProblemSpec dead = kSmall;
  dead.seqlen_q = 200;
  dead.seqlen_kv = 20;
  dead.causal = true;
  dead.diagonal = Diagonal::kBottomRight;
  expect_report(
      {kForward, "ptx::copy_async_wait<0>();\n    ptx::block_sync();  // all warps have read Q",
       "ptx::block_sync();  // all warps have read Q"},
      {dead}, {"store_shared_4: writes shared memory at +", no_wait});
}

TEST_CASE_FIXTURE(Mutations, "caught: a tile read in another order than it was written in") {
  expect_report({kCopy, "copy_async_16(tile.address(row, chunk)",
                 "copy_async_16(tile.address(row, chunk ^ tile.twist(row))"},
                {kSmall}, {"rows fail", "lse of 70 rows fails"});
  expect_report({kForward, "out_tile().address(warp_row + 16 * m + 8 * h, n)",
                 "out_tile().address(warp_row + 16 * m + 8 * h, n ^ 1)"},
                {kSmall}, {"70 rows fail"});
}

TEST_CASE_FIXTURE(Mutations, "caught: a result written twice, or past its end") {
  expect_report(
      {kForward, "params.lse != nullptr && (lane & 3) == 0 && ", "params.lse != nullptr && "},
      {kSmall},
      {"store_global: writes byte ",
       "of lse [1, 1, 1, 70], which this kernel has written already"});
  expect_report({kForward, " && row.owner.query < block.seqlen_q) {",
                 " && row.owner.query <= block.seqlen_q) {"},
                {kSmall}, {"store_global: writes 4 bytes", "past the end of lse [1, 1, 1, 70]"});
  expect_report(
      {kForward, "if (row.owner.query >= block.seqlen_q) continue;",
       "if (row.owner.query > block.seqlen_q) continue;"},
      {kDecode},
      {"attn_fwd, block ", "store_global: writes 4 bytes", "past the end of partial lse ["});
}

TEST_CASE_FIXTURE(Mutations, "caught: a combine step that does not wait, or writes too much") {
  expect_report({kCombine, "ptx::wait_for_previous_kernel();  // which writes the splits", ""},
                {kDecode},
                {"attn_fwd_combine, block 0, thread 0, load_global_written: reads byte 0 of "
                 "partial lse [",
                 "wait_for_previous_kernel is missing"});
  expect_report(
      {kCombine, "params.lse != nullptr && ptx::thread_index() == 0", "params.lse != nullptr"},
      {kDecode}, {"of lse [1, 1, 1, 1], which this kernel has written already"});
  ProblemSpec narrow = kDecode;
  narrow.head_dim = 40;
  expect_report({kCombine, "column < kConfig.head_dim_v;", "column < kColumns;"}, {narrow},
                {"attn_fwd_combine, block 0, thread 40, store_global: writes 2 bytes, the first 0 "
                 "bytes past the end of out [1, 1, 1, 40]"});
}

TEST_CASE_FIXTURE(Mutations, "caught: a mask prepass that goes too far") {
  ProblemSpec spec = kSmall;
  spec.mask = "11qk";
  expect_report(
      {kMaskToBits, "query_of(row) < params.seqlen_q;", "query_of(row) <= params.seqlen_q;"},
      {spec},
      {"mask_to_bits, block ", "load_global: reads 1 bytes",
       "past the end of mask [1, 1, 70, 100]"});
  expect_report(
      {kMaskToBits, "if (key + i < params.seqlen_kv) {", "if (key + i <= params.seqlen_kv) {"},
      {spec}, {"load_global: reads 1 bytes", "past the end of mask [1, 1, 70, 100]"});
  expect_report({kMaskToBits, "if (lane == 0) {", "if (true) {"}, {spec},
                {"store_global: writes byte 0 of mask classes [1, 1, 1, ",
                 "which this kernel has written already"});
}

TEST_CASE_FIXTURE(Mutations, "caught: wide accesses to what is not aligned") {
  ProblemSpec spec = kSmall;
  spec.memory.base_offset = 1;
  expect_report(
      {kCopy, "if constexpr (kAligned) {\n    ptx::copy_async_16(",
       "if constexpr (true) {\n    ptx::copy_async_16("},
      {spec},
      {"copy_async_16: reads 16 bytes at byte ", "of q [1, 1, 70, 64]: not aligned to its size"});
  expect_report(
      {kCopy, "target(row) + chunk * 8;\n    if constexpr (kAligned) {",
       "target(row) + chunk * 8;\n    if constexpr (true) {"},
      {spec},
      {"store_global: writes 16 bytes at byte ", "of out [1, 1, 70, 64]: not aligned to its size"});
}

TEST_CASE_FIXTURE(Mutations, "caught: a NaN at a key that nobody keeps") {
  ProblemSpec spec = kSmall;
  spec.mask = "111k";
  spec.mask_kind = tensor::MaskKind::kScattered;
  spec.poison_dropped_keys = true;
  expect_report(
      {"attnjit/score/bit_mask.cuh", "if constexpr (kPerPair) return true;", "return true;"},
      {spec}, {"4480 not finite"});
}

TEST_CASE_FIXTURE(Mutations, "caught: a sink that every split of the keys adds") {
  const ProblemSpec spec{
      .seqlen_q = 2, .seqlen_kv = 3000, .head_dim = 64, .use_sink = true, .sinks = {8.0f}};
  expect_report({"attnjit/forward/mma/kernel.cuh", "if (split() == 0) features.close(block, row);",
                 "features.close(block, row);"},
                {spec, "{}"}, {"lse of 2 rows fails"});
}

}  // namespace
}  // namespace attnjit::executor_test::mutation_test
