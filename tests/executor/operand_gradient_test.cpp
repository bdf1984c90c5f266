// Gradients of operands of score expressions: each form, on both paths and beside other features.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "bench.hpp"
#include "mutations.hpp"
#include "wgmma_backward.hpp"

namespace attnjit::executor_test::operand_gradient_test {
namespace {

using instance::ProblemSpec;

const std::string kSums = "attnjit/backward/operand_sum.cuh";
const std::string kSite = "attnjit/backward/mma/operand_site.cuh";
const std::string kKernel = "attnjit/backward/mma/operand_gradient.cuh";
const std::string kSingleTile = "attnjit/backward/mma/single_tile.cuh";
const std::string kUnordered = "with no barrier of the block in between";

// Several tiles of rows and keys, the last ones cut.
const ProblemSpec kSmall = {.batch = 2,
                            .heads_q = 2,
                            .heads_kv = 1,
                            .seqlen_q = 100,
                            .seqlen_kv = 130,
                            .head_dim = 32,
                            .backward = true};

struct Said {
  const char* score;
  std::vector<const char*> operands;
  std::vector<const char*> grad;
};

ProblemSpec with(ProblemSpec spec, const Said& said) {
  spec.score = said.score;
  spec.diagonal = Diagonal::kBottomRight;
  for (const char* operand : said.operands) {
    spec.operands.push_back(instance::parse_operand(operand));
  }
  for (const char* name : said.grad) spec.grad.emplace_back(name);
  return spec;
}

std::string report(Bench& bench, const ProblemSpec& spec, bool wgmma = false,
                   const char* arch = "sm_90a") {
  return bench.backward(spec, codegen::find_arch(arch), wgmma ? wgmma_backward(64) : "{}");
}

const Said kDiagonals = {"s + rel[h, clamp(j - i, -20, 20) + 20]", {"rel=fp32:h,41"}, {"rel"}};
const Said kTable = {
    "s + table[h, place[i, j]]", {"table=bf16:h,9", "place=int32:q,k:below/9"}, {"table"}};
const Said kScores[] = {
    kDiagonals,
    {"s + rel[j - i + off + 100, g] * 0.5", {"rel=fp16:230,g"}, {"rel"}},
    {"s * sigmoid(gate) + shift[g]", {"gate=fp32", "shift=bf16:g"}, {"gate", "shift"}},
    {"s + row[b, i] * key[doc[b, j]]",
     {"row=fp32:b,q", "key=fp32:5", "doc=int32:b,k:below/5"},
     {"row", "key"}},
    {"20.0 * tanh((s + pair[h, i, j]) / 20.0)", {"pair=bf16:h,q,k"}, {"pair"}},
    {"s + pair[b, 0, i, j]", {"pair=fp32:b,2,150,131"}, {"pair"}},
    kTable,
    {"s + block[b, i // 16, j // 16]", {"block=fp32:b,7,9"}, {"block"}},
    {"s * x[h] + exp(-abs(s)) * x[0] + y", {"x=fp32:h", "y=fp32"}, {"x", "y"}},
};

// Multiplies the scores of a head.
const Said kScales[] = {
    {"s * sigmoid(gate[b, h]) - shift[g]", {"gate=bf16:b,h", "shift=fp32:g"}, {"gate", "shift"}},
    {"(h == 0 ? 0.0 : s / (1.0 + x * x)) + row[b, i]", {"x=fp32", "row=bf16:b,q"}, {"x", "row"}},
};

TEST_CASE("gradients of operands: each form") {
  Bench bench;
  int turn = 0;
  for (const Said& said : kScores) {
    const bool wgmma = turn++ % 2 == 0;
    if (bench.leaves_out()) continue;
    const ProblemSpec spec = with(kSmall, said);
    CAPTURE(instance::describe(spec));
    CHECK(report(bench, spec, wgmma) == "");
  }
}
TEST_CASE("slow: gradients of operands: each form on each path and architecture") {
  Bench bench;
  for (const Said& said : kScores) {
    for (const int head_dim : {32, 128, 192}) {
      ProblemSpec spec = with(kSmall, said);
      spec.head_dim = head_dim;
      CAPTURE(instance::describe(spec));
      for (const bool wgmma : {false, true}) {
        if (!wgmma || head_dim == 32) CHECK(report(bench, spec, wgmma) == "");
      }
      CHECK(report(bench, spec, false, "sm_86") == "");
      CHECK(report(bench, spec, false, "sm_80") == "");
    }
  }
}

TEST_CASE("gradients of operands: beside other features") {
  Bench bench;
  ProblemSpec spec = with(kSmall, kDiagonals);
  spec.keep = "j <= i + off || j % 7 == 0";
  spec.mask = "b1qk";
  spec.bias = "1hqk";
  spec.want_dbias = spec.want_dlse = true;
  spec.use_sink = spec.want_dsink = true;
  CHECK(report(bench, spec, true) == "");
  spec = with(kSmall, kScores[3]);
  spec.softcap = 2.0f;
  spec.alibi = "h";
  spec.use_seqlens_q = spec.use_seqlens_kv = true;
  spec.deterministic = true;
  CHECK(report(bench, spec) == "");
  spec = with(kSmall, {"s + rel[h, j - i + off + 100] + pair[i, j]",
                       {"rel=fp32:h,230", "pair=fp32:80,90"},
                       {"rel", "pair"}});
  spec.packed = true;
  spec.cu_seqlens_q = {0, 40, 100};
  spec.cu_seqlens_kv = {0, 50, 130};
  CHECK(report(bench, spec) == "");
}

TEST_CASE("gradients of operands: a scale of the scores") {
  Bench bench;
  ProblemSpec spec = with(kSmall, kScales[0]);
  spec.softcap = 3.0f;
  spec.use_seqlens_q = spec.use_seqlens_kv = true;
  CHECK(report(bench, spec) == "");
  spec = with(kSmall, kScales[1]);
  spec.head_dim = 36;  // rows are not 16-byte aligned
  spec.keep = "i % 3 != 0 && j <= i + off";
  CHECK(report(bench, spec) == "");
  // Of a head with so large a slope tiles are walked.
  spec = with(kSmall, {"s * x[h] * (h == 0 ? 17179869184.0 : 2147483648.0)", {"x=fp32:h"}, {"x"}});
  spec.scale = 0x1p-34f;
  CHECK(report(bench, spec, true) == "");
  spec = with(kSmall, kScales[0]);
  spec.packed = true;
  spec.cu_seqlens_q = {0, 40, 100};
  spec.cu_seqlens_kv = {0, 50, 130};
  CHECK(report(bench, spec, true) == "");
}

TEST_CASE("gradients of operands: where there is nothing to add up they are 0") {
  Bench bench;
  ProblemSpec spec = with(kSmall, kScores[2]);
  spec.seqlen_kv = 0;
  CHECK(report(bench, spec) == "");
  spec.seqlen_kv = 130;
  spec.keep = "j > 1000";
  CHECK(report(bench, spec) == "");
  ProblemSpec unread = kSmall;
  unread.keep = "x[j] > -0.5";
  unread.operands = {instance::parse_operand("x=fp32:k")};
  unread.grad = {"x"};
  CHECK(report(bench, unread) == "");
}

// Planes of one tile, several for a thread block.
ProblemSpec planes(const Said& said) {
  ProblemSpec spec = with(kSmall, said);
  spec.batch = 5;
  spec.heads_kv = 2;
  spec.seqlen_q = 36;
  spec.seqlen_kv = 49;
  return spec;
}

// The first read of each but the last two has its sums from the kernel of dk and dv.
const Said kOfPlanes[] = {
    kTable,
    kDiagonals,
    {"s + rel[h, (i // 7 - j // 7 + 7) * 15 + i % 7 - j % 7 + 7]", {"rel=fp32:h,230"}, {"rel"}},
    {"20.0 * tanh((s + pair[i, j] + key[j]) / 20.0)",
     {"pair=bf16:q,k", "key=fp32:k"},
     {"pair", "key"}},
    {"s + row[h, i] - shift", {"row=fp16:h,q", "shift=fp32"}, {"row", "shift"}},
    {"s * sigmoid(gate[h]) + row[b, i]", {"gate=fp32:h", "row=fp32:b,q"}, {"gate", "row"}},
    {"s - row[i]", {"row=fp32:q"}, {"row"}},
};

TEST_CASE("gradients of operands: the planes of a single tile") {
  Bench bench;
  for (const Said& said : kOfPlanes) {
    if (bench.leaves_out()) continue;
    const ProblemSpec spec = planes(said);
    CAPTURE(instance::describe(spec));
    CHECK(bench.backward(spec, codegen::find_arch("sm_90a"), "{}") == "");
  }
  ProblemSpec spec = planes(kTable);
  spec.use_seqlens_q = spec.use_seqlens_kv = true;
  spec.use_sink = spec.want_dsink = true;
  spec.mask = "b1qk";
  CHECK(bench.backward(spec, codegen::find_arch("sm_90a"), "{}") == "");
}

TEST_CASE("gradients of operands: planes of a single tile of an empty batch") {
  Bench bench;
  ProblemSpec spec = planes(kTable);
  spec.batch = 0;
  CHECK(bench.backward(spec, codegen::find_arch("sm_90a"), "{}") == "");
}

TEST_CASE("gradients of operands: long lists are added up slice by slice") {
  Bench bench;
  Said said = kTable;
  ProblemSpec spec = with(kSmall, said);
  spec.head_dim = 16;
  spec.seqlen_q = spec.seqlen_kv = 300;
  spec.batch = 1;
  CHECK(report(bench, spec) == "");
}

TEST_CASE_FIXTURE(Mutations, "caught in gradients of operands: sums") {
  const Run diagonals{with(kSmall, kDiagonals), "{}"}, table{with(kSmall, kTable), "{}"};
  expect_report(
      {kSite, "const int key = row + entry - (kRows - 1);", "const int key = row + entry - kRows;"},
      diagonals, {"rel"});
  expect_report({kSite, "ptx::warp_greatest(element)", "0"}, table, {"table"});
  expect_report({kSite, "ptx::block_sync();  // the sums are there", ""}, diagonals, {kUnordered});
  expect_report({kSums, "if (inside && turn == t) add", "if (inside) add"}, table, {"table"});
  expect_report({kSums, "if (ptx::warp_ballot(element - lane != first) == 0) {", "if (true) {"},
                table, {kUnordered});
  expect_report({kKernel, "Base::apply(slopes, ds);", ""}, {with(kSmall, kScores[3]), "{}"},
                {"row"});
  Run scale{with(kSmall, kScales[1]), "{}"};
  scale.spec.keep = "i % 3 != 0 && j <= i + off";
  expect_report({kSite, "size >= kLeastSlope", "size >= 0.0f"}, scale, {"x"});
  expect_report({kSite, "Formula::factor(operands, at) / slope", "Formula::factor(operands, at)"},
                scale, {"x"});
  expect_report({kSite, "if (!live.has(row)) return;", ""}, scale, {"q"});
}
TEST_CASE_FIXTURE(Mutations, "caught in gradients of operands: sums of planes of one tile") {
  const Run table{planes(kTable), "{}"}, diagonals{planes(kDiagonals), "{}"};
  expect_report({kSums, "next += stride;", "next += 1;"}, table, {"table"});
  expect_report({kSums, "i < left ?", "true ?"}, table, {"reads"});
  expect_report({kSite, "params.values + Base::share * params.share_stride", "params.values"},
                table, {"sums of an operand"});
  expect_report({kSite, "round_up(kRows + kKeys, kListChunk)", "kRows + kKeys / 32 * 32"},
                diagonals, {"rel"});
  expect_report({kSingleTile, "(kConfig.sums == PlaneSums::kOperand) sum[span] += ds;",
                 "(false) sum[span] += ds;"},
                table, {"table"});
}

}  // namespace
}  // namespace attnjit::executor_test::operand_gradient_test
