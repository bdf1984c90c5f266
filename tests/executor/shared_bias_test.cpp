// The backward of path shared_bias, by thread blocks that walk over several batch elements each,
// and the same without one of its safeguards at a time.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <random>
#include <string>

#include "mutations.hpp"

namespace attnjit::executor_test::shared_bias_test {
namespace {

using instance::ProblemSpec;

const std::string kQueries = "attnjit/backward/mma/shared_bias_queries.cuh";
const std::string kKeys = "attnjit/backward/mma/shared_bias_keys.cuh";
const std::string kStrip = "attnjit/backward/mma/shared_bias.cuh";

// Strips of `rows` rows, of planes of up to `longest` rows and keys.
std::string config(int stages = 2, int rows = 64, int longest = 128) {
  const std::string none =
      R"("num_warps": 0, "query_warps": 0, "min_blocks": 0, "late": false, "fresh": "none")";
  const auto tile = [&](int q, int kv) {
    return fmt::format(
        R"({{"path": "shared_bias", "block_q": {}, "block_kv": {}, "num_stages": {}, {}}})", q, kv,
        stages, none);
  };
  return fmt::format(R"({{"dq_method": "kernel", "dbias_method": "per_block", "split": false, )"
                     R"("dkv": {}, "dq": {}}})",
                     tile(longest, rows), tile(rows, longest));
}

// A bias for each head, fewer rows and keys than the strips have, and rows of it that are not
// aligned.
const ProblemSpec kTriangle = [] {
  ProblemSpec spec{
      .batch = 5, .heads_q = 2, .heads_kv = 2, .seqlen_q = 75, .seqlen_kv = 101, .head_dim = 32};
  spec.bias = "1hqk";
  spec.bias_dtype = DType::kFloat32;
  spec.mask = "b11k";
  spec.backward = spec.want_dbias = spec.want_dlse = true;
  return spec;
}();

class SharedBias {
 public:
  /// On a device of one SM, whose thread blocks walk over several batch elements each.
  void expect_right(const ProblemSpec& spec, const std::string& tiles = config()) {
    if (bench_.leaves_out()) return;
    CAPTURE(instance::describe(spec));
    codegen::Arch arch = codegen::find_arch("sm_90a");
    arch.sm_count = 1;
    CHECK(bench_.backward(spec, arch, tiles) == "");
  }

 private:
  Bench bench_;
};

TEST_CASE_FIXTURE(SharedBias, "shared bias: planes of a bias") {
  for (const char* bias : {"1hqk", "11qk", "b1qk", "p1qk/5x1", "shqk/5"}) {
    ProblemSpec spec = kTriangle;
    spec.bias = bias;
    if (spec.bias != "1hqk") spec.batch = 10;
    expect_right(spec);
  }
}

TEST_CASE_FIXTURE(SharedBias, "shared bias: masks, dead rows and unread keys") {
  for (const char* mask : {"", "b11k", "1h1k", "bh1k", "p11k/5x1", "bhq1"}) {
    ProblemSpec spec = kTriangle;
    if (mask[0] == 'p') spec.batch = 10;
    spec.mask = mask;
    spec.mask_kind = tensor::MaskKind::kDeadRows;
    spec.use_seqlens_q = spec.use_seqlens_kv = spec.poison_dropped_keys = true;
    expect_right(spec);
  }
}

TEST_CASE_FIXTURE(SharedBias, "shared bias: widths, types, one stage and strips of 32 rows") {
  ProblemSpec spec = kTriangle;
  spec.dtype = DType::kFloat16;
  spec.bias_dtype.reset();
  spec.head_dim = 24;
  spec.head_dim_v = 16;
  spec.use_sink = spec.want_dsink = true;
  expect_right(spec, config(1));
  spec = kTriangle;
  spec.seqlen_q = 240;
  spec.deterministic = true;
  expect_right(spec, config(1, 32, 256));
  spec = kTriangle;
  spec.bias_kind = tensor::BiasKind::kMinusInfinity;
  expect_right(spec);
}

TEST_CASE_FIXTURE(SharedBias, "slow: shared bias: 60 problems at random") {
  for (unsigned i = 1; i <= 60; ++i) {
    std::mt19937 random(i);
    const auto one_of = [&](auto... values) {
      const std::common_type_t<decltype(values)...> list[] = {values...};
      return list[random() % sizeof...(values)];
    };
    const auto length = [&] { return std::int64_t{1} + random() % 128; };
    ProblemSpec spec = kTriangle;
    spec.batch = one_of(1, 4, 6);
    spec.heads_q = spec.heads_kv = one_of(2, 3);
    spec.seqlen_q = length();
    spec.seqlen_kv = one_of(true, false) ? spec.seqlen_q : length();
    spec.head_dim = one_of(8, 16, 24, 32);
    spec.head_dim_v = one_of(0, 0, 16, 32);
    spec.dtype = one_of(DType::kFloat16, DType::kBFloat16);
    if (one_of(true, false)) spec.bias_dtype.reset();
    spec.bias = one_of("b1qk", "11qk");
    spec.mask = one_of("", "b11k", "1h1k", "bhq1");
    spec.want_dlse = one_of(true, false);
    spec.deterministic = one_of(true, false);
    expect_right(spec, config(one_of(1, 2)));
  }
}

// Without a walk, a thread block has no other batch element whose data it could meet.
TEST_CASE_FIXTURE(OneSmMutations, "caught in a shared bias: a barrier or a copy that is missing") {
  const Run run = {kTriangle, config()}, one_stage = {kTriangle, config(1)};
  const std::string sync = "    ptx::block_sync();  // ";
  expect_report({kStrip, "      ptx::copy_async_wait<0>();\n", ""}, run,
                {"reads shared memory at +"});
  expect_report({kStrip, "  " + sync + "the tiles are there", "// the tiles are there"}, run,
                {"shared memory at +"});
  expect_report({kStrip, "    " + sync + "all are done", "// all are done"}, one_stage,
                {"shared memory at +"});
  for (const std::string& file : {kQueries, kKeys}) {
    expect_report({file, sync + "all are done", "// all are done"}, run, {"shared memory at +"});
    expect_report({file, sync + "the sums of all", "// the sums of all"}, run,
                  {"shared memory at +"});
  }
}

TEST_CASE_FIXTURE(OneSmMutations,
                  "caught in a shared bias: a dead row or an unread key that is read") {
  ProblemSpec spec = kTriangle;
  spec.mask_kind = tensor::MaskKind::kDeadRows;
  spec.poison_dropped_keys = true;
  const Run run = {spec, config()};
  expect_report({kStrip, "features.reads_key(key < last ? key : last) & ", ""}, run,
                {"not finite"});
  expect_report({kStrip, "kept[h] ? pair : 0u", "pair"}, run, {"fail"});
  spec.mask = "";
  spec.use_seqlens_q = true;
  expect_report(
      {kStrip, "((ptx::load_global(live + bit / 32) >> (bit & 31)) & (first + row < end)) != 0",
       "first + row < end"},
      {spec, config()}, {"not finite"});
}

}  // namespace
}  // namespace attnjit::executor_test::shared_bias_test
