// Kernels for planes of one tile, by thread blocks that walk over several planes each, and the same
// without one of their safeguards at a time.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <random>
#include <string>

#include "mutations.hpp"

namespace attnjit::executor_test::single_tile_test {
namespace {

using instance::ProblemSpec;

const std::string kForward = "attnjit/forward/mma/single_tile.cuh";
const std::string kBackward = "attnjit/backward/mma/single_tile.cuh";
const std::string kScores = "attnjit/backward/mma/scores.cuh";
const std::string kResident = "attnjit/score/resident.cuh";

const std::string kPath = R"({"path": "single_tile"})";
const std::string kDkvPath = R"({"dkv": {"path": "single_tile"}})";
const std::string kOnePlane = R"({"dkv": {"path": "single_tile", "num_stages": 1}})";

// Windows of 7 by 7, a bias for each head.
const ProblemSpec kWindows = [] {
  ProblemSpec spec{
      .batch = 9, .heads_q = 3, .heads_kv = 3, .seqlen_q = 49, .seqlen_kv = 49, .head_dim = 32};
  spec.bias = "1hqk";
  return spec;
}();

// Windows of 12 by 12, as many as it takes for a tile of their length.
const ProblemSpec kLongWindows = [] {
  ProblemSpec spec = kWindows;
  spec.batch = 33, spec.heads_q = spec.heads_kv = 2;
  spec.seqlen_q = spec.seqlen_kv = 144;
  return spec;
}();

ProblemSpec gradients(ProblemSpec spec) {
  spec.backward = spec.want_dlse = true;
  spec.want_dsink = spec.use_sink;
  spec.want_dbias = !spec.bias.empty();
  return spec;
}

class SingleTile {
 public:
  /// Both passes on a device of one SM, whose thread blocks walk over several planes each.
  void expect_right(const ProblemSpec& spec, bool deterministic = false) {
    if (bench_.leaves_out()) return;
    CAPTURE(instance::describe(spec));
    codegen::Arch arch = codegen::find_arch("sm_90a");
    arch.sm_count = 1;
    CHECK(bench_.forward(spec, arch, kPath) == "");
    ProblemSpec backward = gradients(spec);
    backward.deterministic = deterministic;
    CHECK(bench_.backward(backward, arch, kDkvPath) == "");
  }

 private:
  Bench bench_;
};

TEST_CASE_FIXTURE(SingleTile, "single tile: planes of a bias, shared and not") {
  for (const char* bias : {"", "1hqk", "bhqk", "11qk", "p1qk/3x1", "shqk/3", "b1q1"}) {
    ProblemSpec spec = kWindows;
    spec.bias = bias;
    expect_right(spec);
  }
}

TEST_CASE_FIXTURE(SingleTile, "single tile: masks, dead rows and unread keys") {
  for (const char* mask : {"b1qk", "p1qk/3x1", "b11k", "1hq1"}) {
    ProblemSpec spec = kWindows;
    spec.mask = mask;
    spec.mask_kind = tensor::MaskKind::kDeadRows;
    spec.use_seqlens_q = spec.use_seqlens_kv = spec.poison_dropped_keys = true;
    expect_right(spec);
  }
}

TEST_CASE_FIXTURE(SingleTile, "single tile: caps, sinks, slopes and bands") {
  ProblemSpec spec = kWindows;
  spec.softcap = 8.0f;
  spec.use_sink = true;
  expect_right(spec);
  spec = {.batch = 5, .heads_q = 2, .heads_kv = 2, .seqlen_q = 33, .seqlen_kv = 60, .head_dim = 40};
  spec.dtype = DType::kFloat16;
  spec.alibi = "h";
  spec.window = {12, 5};
  spec.diagonal = Diagonal::kBottomRight;
  expect_right(spec);
}

// More than 128 rows and keys, whose bias is not resident; and fewer, whose bias is.
TEST_CASE_FIXTURE(SingleTile, "single tile: longer planes") {
  ProblemSpec spec = kLongWindows;
  spec.mask = "p1qk/3x1";
  spec.mask_kind = tensor::MaskKind::kDeadRows;
  spec.use_seqlens_q = spec.use_seqlens_kv = spec.poison_dropped_keys = true;
  expect_right(spec);
  spec = kLongWindows;
  spec.seqlen_q = 81;
  spec.seqlen_kv = 121;
  spec.use_sink = true;
  expect_right(spec);
}

// The backward has one plane in shared memory.
TEST_CASE_FIXTURE(SingleTile, "single tile: longer planes of 64 columns") {
  ProblemSpec spec = kLongWindows;
  spec.dtype = DType::kFloat16;
  spec.head_dim = 64;
  spec.bias = "";
  spec.mask = "b11k";
  spec.poison_dropped_keys = true;
  expect_right(spec);
}

// Lengths, widths and operands at random.
void sweep(SingleTile& test, unsigned first, unsigned count) {
  for (unsigned i = first; i < first + count; ++i) {
    std::mt19937 random(i);
    const auto one_of = [&](auto... values) {
      const std::common_type_t<decltype(values)...> list[] = {values...};
      return list[random() % sizeof...(values)];
    };
    const auto length = [&] { return std::int64_t{17} + random() % 48; };
    ProblemSpec spec{.batch = one_of(1, 4, 6), .heads_q = one_of(1, 2, 3)};
    spec.heads_kv = spec.heads_q;
    spec.seqlen_q = length();
    spec.seqlen_kv = one_of(true, false) ? spec.seqlen_q : length();
    spec.head_dim = one_of(8, 17, 32, 40, 64);
    spec.head_dim_v = one_of(0, 0, 16, 48);
    spec.dtype = one_of(DType::kFloat16, DType::kBFloat16);
    spec.bias = one_of("", "1hqk", "bhqk", "b1qk", "11qk");
    if (one_of(true, false)) spec.bias_dtype = DType::kFloat32;
    spec.mask = one_of("", "", "b1qk", "1h1k", "bhq1");
    test.expect_right(spec, one_of(true, false));
  }
}

TEST_CASE_FIXTURE(SingleTile, "single tile: expressions") {
  const auto expect_said = [&](const ProblemSpec& spec, const char* score, const char* keep,
                               std::initializer_list<const char*> operands) {
    ProblemSpec said = spec;
    said.score = score;
    said.keep = keep;
    for (const char* operand : operands) said.operands.push_back(instance::parse_operand(operand));
    expect_right(said);
  };
  expect_said(kWindows, "s + table[h, place[i, j]]", "part[b, i] == part[b, j]",
              {"table=fp32:h,9", "place=int32:q,k:below/9", "part=int32:b,q:sorted/3"});
  expect_said(kWindows, "s * sigmoid(gate[h])", "pad[b, j] || j <= i",
              {"gate=fp32:h", "pad=bool:b,k"});
  expect_said(kLongWindows, "", "part[b, i] == part[b, j]", {"part=int32:b,q:sorted/3"});
}

TEST_CASE_FIXTURE(SingleTile, "single tile: ten problems at random") { sweep(*this, 1, 10); }
TEST_CASE_FIXTURE(SingleTile, "slow: single tile: 150 problems at random") {
  sweep(*this, 100, 150);
}

// The same of longer planes.
TEST_CASE_FIXTURE(SingleTile, "slow: single tile: 40 longer planes at random") {
  for (unsigned i = 1; i <= 40; ++i) {
    std::mt19937 random(i);
    const auto one_of = [&](auto... values) {
      const std::common_type_t<decltype(values)...> list[] = {values...};
      return list[random() % sizeof...(values)];
    };
    ProblemSpec spec{.batch = 34, .heads_q = 2, .heads_kv = 2};
    spec.seqlen_q = spec.seqlen_kv = std::int64_t{65} + random() % 96;
    spec.head_dim = one_of(17, 24, 32);
    spec.dtype = one_of(DType::kFloat16, DType::kBFloat16);
    spec.bias = one_of("", "1hqk", "bhqk", "11qk");
    // Biases of other rows are read one by one, which configuration 0 leaves to other paths there.
    if (spec.seqlen_q > 128) spec.seqlen_q = spec.seqlen_kv = 16 * (spec.seqlen_q / 16);
    if (one_of(true, false)) spec.bias_dtype = DType::kFloat32;
    spec.mask = one_of("", "", "b1qk", "1h1k", "bhq1");
    expect_right(spec, one_of(true, false));
  }
}

// Without a walk, a thread block has no other plane whose data it could meet.
TEST_CASE_FIXTURE(OneSmMutations, "caught in single tiles: a barrier or a copy that is missing") {
  const Run forward = {kWindows, kPath}, backward = {gradients(kWindows), kDkvPath};
  const std::string wait = "      ptx::copy_async_wait<0>();\n", sync = "      ptx::block_sync();";
  expect_report({kForward, wait, ""}, forward, {"reads shared memory at +"});
  expect_report({kForward, sync, ""}, forward, {"shared memory at +"});
  expect_report({kScores, wait, ""}, backward, {"reads shared memory at +"});
  expect_report({kScores, sync + "  // the tiles are there", "// the tiles are there"}, backward,
                {"shared memory at +"});
  expect_report({kBackward, "    ptx::block_sync();  // P and dS", "    // P and dS"}, backward,
                {"reads shared memory at +"});
  const Run one_plane = {gradients(kWindows), kOnePlane};
  expect_report({kScores, "        ptx::block_sync();  // all are done", "        // all are done"},
                one_plane, {"shared memory at +"});
}

TEST_CASE_FIXTURE(OneSmMutations, "caught in single tiles: a bias of the plane before") {
  expect_report({kResident, "this->plane != held_plane", "held_plane == nullptr"},
                {kWindows, kPath}, {"rows fail"});
  Run score = {kWindows, kPath};
  score.spec.bias.clear();
  score.spec.score = "s + table[h, j - i + 60]";
  score.spec.operands = {instance::parse_operand("table=fp32:h,121")};
  expect_report({kResident, "if (block.head == held_head) return;", "if (held_head >= 0) return;"},
                score, {"rows fail"});
}

TEST_CASE_FIXTURE(OneSmMutations,
                  "caught in single tiles: a dead row or an unread key that is read") {
  ProblemSpec spec = kWindows;
  spec.mask = "b1qk";
  spec.mask_kind = tensor::MaskKind::kDeadRows;
  spec.poison_dropped_keys = true;
  // Windows of 64 rows, so that no row lies past the tensors.
  spec.seqlen_q = spec.seqlen_kv = 64;
  expect_report({kBackward, "lse != -ptx::infinity();", "true;"}, {gradients(spec), kDkvPath},
                {"not finite"});
  expect_report({kBackward, "lse[0][h] != ptx::infinity()", "true"}, {gradients(spec), kDkvPath},
                {"not finite"});
  spec.mask = "b11k";
  expect_report({kForward, "features.reads_key(key)", "true"}, {spec, kPath}, {"not finite"});
}

}  // namespace
}  // namespace attnjit::executor_test::single_tile_test
