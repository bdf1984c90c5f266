// Expressions on the paths of both passes: masks and scores that people ask for, each feature
// beside them, and random ones.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "bench.hpp"
#include "expr/declare.hpp"
#include "expr/gradient_form.hpp"
#include "expr/parse.hpp"
#include "expr/print.hpp"
#include "expr/simplify.hpp"
#include "instance/call_args.hpp"
#include "mutations.hpp"
#include "unit/expr/random_expression.hpp"
#include "wgmma_backward.hpp"

namespace attnjit::executor_test::expression_test {
namespace {

using instance::ProblemSpec;

const std::string kWgmma =
    R"({"path": "wgmma", "block_q": 64, "block_kv": 32, "num_stages": 2, "pack_gqa": false})";
const std::string kPacked =
    R"({"path": "wgmma", "block_q": 64, "block_kv": 32, "num_stages": 2, "pack_gqa": true})";

// Several tiles of rows and keys, the last ones cut.
const ProblemSpec kSmall = {
    .batch = 2, .heads_q = 2, .heads_kv = 1, .seqlen_q = 150, .seqlen_kv = 170, .head_dim = 32};

struct Said {
  const char* score;
  const char* keep;
  std::vector<const char*> operands;
};

ProblemSpec with(ProblemSpec spec, const Said& said) {
  spec.score = said.score;
  spec.keep = said.keep;
  spec.diagonal = Diagonal::kBottomRight;
  for (const char* operand : said.operands) {
    spec.operands.push_back(instance::parse_operand(operand));
  }
  return spec;
}

// On mma and on wgmma, with the heads of a kv head apart and packed: by turns, or all.
constexpr int kAll = -1;
bool takes(int turn, int config, int count) { return turn == kAll || turn % count == config; }

void check_forward(Bench& bench, ProblemSpec spec, int turn = kAll) {
  spec.backward = false;
  CAPTURE(instance::describe(spec));
  const codegen::Arch& arch = codegen::find_arch("sm_90a");
  const std::string configs[] = {"{}", kWgmma, kPacked};
  for (int n = 0; n < 3; ++n) {
    if (!takes(turn, n, 3)) continue;
    CAPTURE(configs[n]);
    CHECK(bench.forward(spec, arch, configs[n]) == "");
  }
}
void check_backward(Bench& bench, ProblemSpec spec, int turn = kAll) {
  spec.backward = true;
  CAPTURE(instance::describe(spec));
  const codegen::Arch& arch = codegen::find_arch("sm_90a");
  const std::string configs[] = {"{}", wgmma_backward(64)};
  for (int n = 0; n < 2; ++n) {
    if (!takes(turn, n, 2)) continue;
    CAPTURE(configs[n]);
    CHECK(bench.backward(spec, arch, configs[n]) == "");
  }
}

// One pass on one path, by turns: CI compiles each kernel in a second.
void check_one_pass(Bench& bench, const ProblemSpec& spec, int turn) {
  if (bench.leaves_out()) return;
  turn % 2 == 0 ? check_forward(bench, spec, turn / 2) : check_backward(bench, spec, turn / 2);
}

const Said kMasks[] = {
    {"", "j <= i + off", {}},
    {"", "abs(i + off - j) < 20", {}},
    {"", "j <= i + off && (i + off - j) % 3 == 0", {}},
    {"", "j <= i + off || j < prefix[b]", {"prefix=int32:b:below/90"}},
    {"", "row[b, i] == key[b, j]", {"row=int32:b,q:sorted/4", "key=int32:b,k:sorted/4"}},
    {"",
     "tin[b, j] <= tin[b, i] && tin[b, i] < tout[b, j]",
     {"tin=int32:b,k:count", "tout=int32:b,k:below/300"}},
    {"", "pad[b, j] && (h % 2 == 0 || j <= i)", {"pad=bool:b,k"}},
    {"", "i // 32 == j // 32 || j < 3", {}},
};
const Said kScores[] = {
    {"3.0 * tanh(s / 3.0)", "", {}},
    {"s + rel[h, clamp(j - i, -20, 20) + 20]", "", {"rel=fp32:h,41"}},
    {"s - slope[h] * abs(i + off - j)", "j <= i + off", {"slope=fp32:h"}},
    {"s * sigmoid(gate)", "", {"gate=fp32"}},
    {"skip[g, j] ? -inf : s", "", {"skip=bool:g,k"}},
    {"2.0 * sigmoid(s) + table[h, place[i, j]]", "", {"table=bf16:h,9", "place=int32:q,k:below/9"}},
    {"s + row[b, i] * key[b, j]", "", {"row=fp32:b,q", "key=fp16:b,k"}},
    {"abs(s) < 0.5 ? s * s : s", "i != j", {}},
};

// Elements by rows or by keys whose ranges tell of whole tiles.
const Said kRanged[] = {
    {"", "row[i] == key[b, j]", {"row=int32:q:sorted/3", "key=int32:b,k:sorted/3"}},
    {"", "row[b, i] <= j && j < end[i // 2]", {"row=int32:b,q:below/150", "end=int32:90:count"}},
    {"",
     "(doc[j + 9, b] == doc[i, b] || i < j) && pad[g, j]",
     {"doc=int32:400,b:count", "pad=bool:g,k"}},
    {"",
     "part[b, h, i // 128, j // 64] && j <= i || full[b, i // 64, j >> 6]",
     {"part=bool:b,h,3,5", "full=bool:b,6,5"}},
    {"", "block[i // 64, j // 32] < 3", {"block=int32:6,10:below/5"}},
};

TEST_CASE("expressions: ranges of operands tell which tiles are empty and which are full") {
  Bench bench;
  ProblemSpec longer = kSmall;
  longer.seqlen_q = 330;
  longer.seqlen_kv = 290;
  int turn = 0;
  for (const Said& said : kRanged) check_one_pass(bench, with(longer, said), turn++);
}

TEST_CASE_FIXTURE(Mutations, "caught in expressions: a range without its upper half") {
  ProblemSpec longer = kSmall;
  longer.seqlen_q = 330;
  longer.seqlen_kv = 290;
  const Run run{with(longer, kRanged[0]), "{}"};
  expect_report({"attnjit/prepass/operand_ranges.cuh", "first + 32 < last ? first + 32 : last",
                 "first < last ? first : last"},
                run, {"rows fail"});
}

TEST_CASE_FIXTURE(Mutations, "caught in expressions: neighbours by their block or quad") {
  const std::string reads = "attnjit/score/formula_reads.cuh";
  ProblemSpec longer = kSmall;
  longer.seqlen_q = 330;
  longer.seqlen_kv = 290;
  ProblemSpec shorter =
      with(longer, {"", "block[i // 32, j // 32] < 3", {"block=int32:11,10:below/5"}});
  shorter.backward = true;
  expect_report({reads, "(along.distance & ~15)", "0"}, {shorter, wgmma_backward(64)}, {"fail"});
  expect_report({reads, ".word[distance & 3]", ".word[0]"}, {with(longer, kRanged[0]), kWgmma},
                {"rows fail"});
}

TEST_CASE("expressions: masks and scores") {
  Bench bench;
  int turn = 0;
  for (const auto& list : {std::span<const Said>(kMasks), std::span<const Said>(kScores)}) {
    for (const Said& said : list) check_one_pass(bench, with(kSmall, said), turn++);
  }
}
// A part of longer sequences: the diagonal runs through it.
// Two thread blocks of 64 rows per SM, and the heads of a kv head packed, with its blocks.
TEST_CASE("expressions: tiles of the blocks by which an operand is read") {
  Bench bench;
  codegen::Arch one_sm = codegen::find_arch("sm_90a");
  one_sm.sm_count = 1;
  const ProblemSpec spec =
      with({.heads_q = 4, .heads_kv = 2, .seqlen_q = 200, .seqlen_kv = 330, .head_dim = 64},
           {"", "lists[g, i // 64, j // 64] == 0", {"lists=int32:g,4,6:below/3"}});
  for (
      const char* tile :
      {R"({"path": "wgmma", "block_q": 64, "block_kv": 64, "num_stages": 2, "pack_gqa": false})",
       R"({"path": "wgmma", "block_q": 128, "block_kv": 64, "num_stages": 2, "pack_gqa": true})"}) {
    CAPTURE(tile);
    CHECK(bench.forward(spec, one_sm, tile) == "");
  }
}

TEST_CASE("expressions: rows and keys are a part of a whole") {
  Bench bench;
  ProblemSpec part = kSmall;
  part.row_offset = 90;
  part.key_offset = 40;
  int turn = 0;
  for (const Said& said : {
           Said{"s + rel[h, clamp(j - i, -20, 20) + 20]", "j <= i", {"rel=fp32:h,41"}},
           Said{"", "doc[b, i] == doc[b, j] && j <= i + off", {"doc=int32:b,250:sorted/5"}},
           Said{"s + row[i]", "j + key_offset <= i + row_offset", {"row=fp32:q"}},
       }) {
    check_one_pass(bench, with(part, said), turn++);
  }
}

TEST_CASE("slow: expressions: masks and scores on each path") {
  Bench bench;
  for (const auto& list : {std::span<const Said>(kMasks), std::span<const Said>(kScores)}) {
    for (const Said& said : list) {
      check_forward(bench, with(kSmall, said));
      check_backward(bench, with(kSmall, said));
    }
  }
  ProblemSpec longer = kSmall;
  longer.seqlen_q = 330;
  longer.seqlen_kv = 290;
  for (const Said& said : kRanged) {
    check_forward(bench, with(longer, said));
    check_backward(bench, with(longer, said));
  }
}

TEST_CASE("expressions: beside mask, bias, softcap, slopes, sink, lengths, packed and paged keys") {
  Bench bench;
  const Said said = {"s + rel[h, clamp(j - i, -20, 20) + 20]",
                     "j <= i + off || key[b, j] == 1",
                     {"rel=fp32:h,41", "key=int32:b,k:below/3"}};
  ProblemSpec spec = with(kSmall, said);
  spec.mask = "b1qk";
  spec.bias = "1hqk";
  spec.want_dbias = true;
  spec.use_sink = true;
  ProblemSpec forward = spec;
  forward.want_dbias = false;
  check_forward(bench, forward, 1);
  check_backward(bench, spec, 2);
  spec.mask = spec.bias = "";
  spec.want_dbias = false;
  spec.softcap = 2.0f;
  spec.alibi = "h";
  spec.use_seqlens_q = spec.use_seqlens_kv = true;
  check_forward(bench, spec, 3);
  check_backward(bench, spec, 4);
  spec.use_seqlens_q = spec.use_seqlens_kv = false;
  spec.softcap.reset();
  spec.packed = true;
  spec.cu_seqlens_q = {0, 60, 150};
  spec.cu_seqlens_kv = {0, 70, 170};
  check_forward(bench, spec, 5);
  check_backward(bench, spec, 6);
  spec.packed = false;
  spec.cu_seqlens_q.clear();
  spec.cu_seqlens_kv.clear();
  spec.page_size = 64;
  spec.seqlen_kv = 192;
  check_forward(bench, spec, 7);
}

// Of sizes that random indices exceed: they are clamped.
std::vector<instance::OperandSpec> random_operands(
    const std::vector<expr::OperandDeclaration>& of) {
  constexpr const char* kReadable[] = {
      "gate=fp32",           "slope=fp32:40",        "rel=fp32:h,30",   "bias=bf16:b,h,k",
      "top=int32::below/50", "doc=int32:k:sorted/5", "table=int32:7,k", "pad=bool:b,k",
      "flag=bool",           "whole=fp16:b,h,9,9"};
  std::vector<instance::OperandSpec> list;
  for (const char* text : kReadable) {
    const instance::OperandSpec operand = instance::parse_operand(text);
    const bool is_read =
        std::ranges::any_of(of, [&](const auto& each) { return each.name == operand.name; });
    if (is_read) list.push_back(operand);
  }
  return list;
}

// Up to four float operands of the score that are not read at an index that depends on s.
std::vector<std::string> random_gradients(const ProblemSpec& spec) {
  if (spec.score.empty()) return {};
  const instance::ShapeCall call(spec);
  const auto declarations = expr::declarations(call.forward().operands);
  const expr::Expr e = expr::simplify(expr::parse(expr::Kind::kScore, spec.score, declarations));
  std::vector<std::string> names;
  std::size_t sites = 0;
  for (std::size_t n = 0; n < e.operands().size() && names.size() < 4; ++n) {
    const auto own = expr::gradient_sites(e, expr::OperandSet{1} << n, expr::Lengths::kShared);
    const bool allowed = std::ranges::all_of(own, [](const expr::GradientSite& site) {
      return (expr::uses(site.read) & expr::kUsesScore) == 0 &&
             site.form != expr::GradientForm::kPairs;  // whose sizes are those of the problem
    });
    sites += own.size();
    if (own.empty() || !allowed || sites > 8) continue;
    names.push_back(e.operands()[n].name);
  }
  return names;
}

void check_random(std::uint64_t count, bool all) {
  Bench bench;
  for (std::uint64_t n = 0; n < count; ++n) {
    CAPTURE(n);
    ProblemSpec spec = kSmall;
    spec.diagonal = n % 2 == 0 ? Diagonal::kBottomRight : Diagonal::kTopLeft;
    spec.seqlen_q = 40 + static_cast<std::int64_t>(n * 37 % 90);
    spec.seqlen_kv = 40 + static_cast<std::int64_t>(n * 53 % 110);
    std::vector<expr::OperandDeclaration> read;
    const auto add = [&](const expr::Expr& e) {
      read.insert(read.end(), e.operands().begin(), e.operands().end());
      return expr::print(e);
    };
    if (n % 4 != 3) {  // floats of kernels differ from the reference's at an edge: none of these
      expr::test::RandomExpressions masks(n, {.depth = 6, .has_floats = false});
      spec.keep = add(masks.keep());
    }
    if (n % 4 != 1) {  // bounded, so that fp32 has digits left
      expr::test::RandomExpressions scores(n + 1000, {.depth = 5, .is_smooth = true});
      const std::string factor = add(scores.score()), addend = add(scores.score());
      spec.score = fmt::format("s * (1.25 + tanh({})) + 2.0 * sigmoid({})", factor, addend);
    }
    spec.operands = random_operands(read);
    if (n % 3 == 0) spec.grad = random_gradients(spec);
    const int turn = all ? kAll : static_cast<int>(n / 3);
    if (n % 3 == 0) {
      check_backward(bench, spec, turn);
    } else {
      check_forward(bench, spec, turn);
    }
  }
}

TEST_CASE("expressions: 6 random ones") { check_random(6, false); }
TEST_CASE("slow: expressions: 400 random ones") { check_random(400, true); }

}  // namespace
}  // namespace attnjit::executor_test::expression_test
