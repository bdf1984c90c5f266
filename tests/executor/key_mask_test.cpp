// Masks over keys that few rows read, where the caller keeps them; and the wait of the forward for
// the kernel that converts other masks to bits.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "mutations.hpp"

namespace attnjit::executor_test {
namespace {

using instance::ProblemSpec;
using tensor::MaskKind;

const std::string kHeader = "attnjit/score/key_mask.cuh";
const std::string kUnitTile = R"({"block_q":16,"num_warps":1,"block_kv":32,"num_stages":2})";

// A token of four heads that share two kv heads; dropped keys hold NaN.
ProblemSpec token(const char* mask, MaskKind kind) {
  ProblemSpec spec{.batch = 2,
                   .heads_q = 4,
                   .heads_kv = 2,
                   .seqlen_q = 1,
                   .seqlen_kv = 1200,
                   .head_dim = 64,
                   .mask = mask,
                   .mask_kind = kind,
                   .mask_density = 0.1};
  spec.poison_dropped_keys = true;
  return spec;
}

class KeyMasks : public Mutations {
 public:
  bool leaves_out() { return bench_.leaves_out(); }
  std::string run(const ProblemSpec& spec, const std::string& config = "{}") {
    return bench_.forward(spec, codegen::find_arch("sm_90a"), config);
  }

 private:
  Bench bench_;
};

TEST_CASE_FIXTURE(KeyMasks, "key masks in place: patterns and kinds, of one row and of sixteen") {
  for (const char* pattern : {"b11k", "1g1k", "bh1k", "111k"}) {
    for (const MaskKind kind : {MaskKind::kRandom, MaskKind::kBlocks, MaskKind::kSuffix}) {
      CAPTURE(pattern);
      CAPTURE(static_cast<int>(kind));
      ProblemSpec spec = token(pattern, kind);
      if (!leaves_out()) CHECK(run(spec) == "");
      spec.seqlen_q = 8;
      spec.bias = "b1qk";
      if (!leaves_out()) CHECK(run(spec) == "");
    }
  }
}

TEST_CASE_FIXTURE(KeyMasks, "key masks in place: ends of rows, strides and groups of the batch") {
  for (const int keys : {1, 7, 8, 31, 33, 1000, 1025}) {
    ProblemSpec spec = token("b11k", MaskKind::kRandom);
    spec.seqlen_kv = keys;
    spec.mask_density = 0.6;
    CAPTURE(keys);
    CHECK(run(spec, kUnitTile) == "");
  }
  ProblemSpec groups = token("s11k/2", MaskKind::kRandom);
  groups.batch = 4;
  CHECK(run(groups) == "");
}

TEST_CASE_FIXTURE(KeyMasks, "caught: a mask in place that is read past its end, or not at all") {
  ProblemSpec spec = token("b11k", MaskKind::kRandom);
  spec.seqlen_kv = 1008;
  expect_report({kHeader, "first + kShape.block_kv > block.operand_keys", "false"},
                {spec, kUnitTile}, {"past the end of mask"});
  const Run few{token("b11k", MaskKind::kRandom), kUnitTile};
  Run most = few;
  most.spec.mask_density = 0.9;
  expect_report({kHeader, "any |= bytes.word[j] != 0;", "any = bytes.word[j] != 0;"}, few,
                {"rows fail"});
  expect_report({kHeader, "all &= !has_zero_byte(", "all = !has_zero_byte("}, most, {"rows fail"});
  expect_report(
      {kHeader, "return ptx::load_global(plane + key * params.key_stride) != 0;", "return true;"},
      few, {"rows fail"});
}

TEST_CASE_FIXTURE(KeyMasks, "caught: a forward that does not wait for the bit mask") {
  ProblemSpec spec = token("b1qk", MaskKind::kRandom);
  spec.seqlen_q = 70;
  spec.seqlen_kv = 130;
  const Run run{spec, R"({"path":"wgmma","block_q":64,"block_kv":64})"};
  expect_report({"attnjit/forward/wgmma/kernel.cuh", "ptx::wait_for_previous_kernel();", ""}, run,
                {"which the kernel ahead may still write: wait_for_previous_kernel is missing"});
  expect_report({"attnjit/score/mask_classes.cuh", "ptx::load_global_written(row + columns.at(j))",
                 "ptx::load_global(row + columns.at(j))"},
                run, {"through the read-only cache, although a kernel that this one overlaps"});
}

}  // namespace
}  // namespace attnjit::executor_test
