// The forward of path shared_bias, by thread blocks that walk over several batch elements each, and
// the same without one of its safeguards at a time.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <random>
#include <string>

#include "mutations.hpp"

namespace attnjit::executor_test::forward_shared_bias_test {
namespace {

using instance::ProblemSpec;

const std::string kLoads = "attnjit/forward/wgmma/shared_bias.cuh";
const std::string kConsumer = "attnjit/forward/wgmma/shared_bias_consumer.cuh";

std::string config(int keys = 288) {
  return fmt::format(R"({{"path": "shared_bias", "block_q": 64, "block_kv": {}}})", keys);
}

// Two strips for each head, elements for the stages to go round, and rows of the bias that are not
// aligned.
const ProblemSpec kTriangle = [] {
  ProblemSpec spec{
      .batch = 6, .heads_q = 2, .heads_kv = 2, .seqlen_q = 70, .seqlen_kv = 211, .head_dim = 32};
  spec.bias = "1hqk";
  spec.bias_dtype = DType::kFloat32;
  spec.mask = "b11k";
  return spec;
}();

class SharedBias {
 public:
  /// On a device of so many SMs.
  void expect_right(const ProblemSpec& spec, const std::string& tile = config(), int sms = 1) {
    if (bench_.leaves_out()) return;
    CAPTURE(instance::describe(spec));
    codegen::Arch arch = codegen::find_arch("sm_90a");
    arch.sm_count = sms;
    CHECK(bench_.forward(spec, arch, tile) == "");
  }

 private:
  Bench bench_;
};

TEST_CASE_FIXTURE(SharedBias, "forward shared bias: planes of a bias, and shares of their order") {
  for (const char* bias : {"1hqk", "11qk", "bhqk", "p1qk/6x1", "p1qk/2x3", "shqk/3"}) {
    ProblemSpec spec = kTriangle;
    spec.bias = bias;
    expect_right(spec);
    expect_right(spec, config(), 5);
  }
}

TEST_CASE_FIXTURE(SharedBias, "forward shared bias: masks, dead rows and unread keys") {
  for (const char* mask : {"", "b11k", "1h1k", "bh1k", "p11k/6x1", "bhq1"}) {
    ProblemSpec spec = kTriangle;
    spec.mask = mask;
    spec.mask_kind = tensor::MaskKind::kDeadRows;
    spec.use_seqlens_q = spec.use_seqlens_kv = spec.poison_dropped_keys = true;
    expect_right(spec);
  }
}

TEST_CASE_FIXTURE(SharedBias, "forward shared bias: widths, types and scores of any size") {
  ProblemSpec spec = kTriangle;
  spec.dtype = DType::kFloat16;
  spec.bias_dtype.reset();
  spec.head_dim = 24;
  spec.head_dim_v = 16;
  spec.use_sink = true;
  expect_right(spec);
  spec = kTriangle;
  spec.seqlen_kv = 333;
  expect_right(spec, config(384));
  for (auto kind : {tensor::BiasKind::kMinusInfinity, tensor::BiasKind::kLowest,
                    tensor::BiasKind::kHugeLogit, tensor::BiasKind::kVeryNegative}) {
    spec = kTriangle;
    spec.bias_kind = kind;
    expect_right(spec);
  }
}

TEST_CASE_FIXTURE(SharedBias, "slow: forward shared bias: 60 problems at random") {
  for (unsigned i = 1; i <= 60; ++i) {
    std::mt19937 random(i);
    const auto one_of = [&](auto... values) {
      const std::common_type_t<decltype(values)...> list[] = {values...};
      return list[random() % sizeof...(values)];
    };
    ProblemSpec spec = kTriangle;
    spec.batch = one_of(1, 4, 6);
    spec.heads_q = spec.heads_kv = one_of(2, 3);
    spec.seqlen_q = std::int64_t{17} + random() % 184;  // fewer read a mask as bytes
    const int keys = one_of(288, 384);
    spec.seqlen_kv = std::int64_t{1} + random() % keys;
    spec.head_dim = one_of(8, 16, 24, 32);
    spec.head_dim_v = one_of(0, 0, 16, 32);
    spec.dtype = one_of(DType::kFloat16, DType::kBFloat16);
    if (one_of(true, false)) spec.bias_dtype.reset();
    spec.bias = one_of("b1qk", "11qk");
    spec.bias_kind = one_of(tensor::BiasKind::kNormal, tensor::BiasKind::kGraded);
    spec.mask = one_of("", "b11k", "1h1k", "bhq1");
    expect_right(spec, config(keys), one_of(1, 3));
  }
}

TEST_CASE_FIXTURE(OneSmMutations, "caught in a forward's shared bias: a wait that is missing") {
  const Run run = {kTriangle, config()};
  const auto without = [&](const std::string& file, const std::string& line,
                           const std::string& report) {
    expect_report({file, line, ""}, run, {report});
  };
  without(kConsumer, "ptx::barrier_wait(Stages::qk_full(state.slot()), state.full());",
          "barrier_wait is missing");
  without(kConsumer, "ptx::barrier_wait(Stages::v_full(slot), full);", "barrier_wait is missing");
  without(kLoads, "ptx::barrier_wait(Stages::v_landed(slot), state.full());", "shared memory at +");
  const std::string empty = "ptx::barrier_wait(Stages::empty(slot), state.empty());\n    ";
  for (const std::string after : {"ptx::fence_async_proxy();", "if (ptx::lane_index() == 0) {"}) {
    expect_report({kLoads, empty + after, after}, run, {"shared memory at +"});
  }
  without(kConsumer, "ptx::barrier_wait(Stages::parts_full(state.slot()), state.full());",
          "shared memory at +");
  without(kConsumer, "ptx::warp_sync();  // all lanes have written", "shared memory at +");
  without(kConsumer, "ptx::warp_sync();  // all lanes have read the parts", "shared memory at +");
  without(kLoads, "ptx::warp_sync();  // all rows are zero", "shared memory at +");
  expect_report(
      {kConsumer, "    ptx::named_barrier_sync(1 + consumer, 128);\n    const ptx::Vector16 suited",
       "    const ptx::Vector16 suited"},
      run, {"shared memory at +"});
}

TEST_CASE_FIXTURE(OneSmMutations, "caught in a forward's shared bias: what a part depends on") {
  const Run run = {kTriangle, config()};
  expect_report({kConsumer, "if (walk.turns) features", "if (state.index == 0) features"}, run,
                {"fail"});
  ProblemSpec spec = kTriangle;
  spec.bias_kind = tensor::BiasKind::kVeryNegative;
  expect_report({kConsumer, "ptx::warp_broadcast(all, 0) != 0", "true"}, {spec, config()},
                {"fail"});
  spec = kTriangle;
  spec.poison_dropped_keys = true;
  expect_report({kLoads, " || !features.reads_key(key)", ""}, {spec, config()}, {"fail"});
}

}  // namespace
}  // namespace attnjit::executor_test::forward_shared_bias_test
