#include "cli/input/problem_flags.hpp"

#include <doctest/doctest.h>

#include <sstream>

#include "cli/work/workload.hpp"
#include "cli_fixtures.hpp"
#include "instance/call_args.hpp"

namespace attnjit::cli {
namespace {

using test::error_of;

std::string flags_error(const ProblemFlags& flags) {
  return error_of(ErrorKind::kInvalidEnvironment, [&] { make_case(flags); });
}

TEST_CASE("without flags there is a default problem") {
  const instance::ProblemSpec spec = make_case({}).spec;
  CHECK(spec.dtype == DType::kBFloat16);
  CHECK(spec.batch == 1);
  CHECK(spec.heads_q == kDefaultHeads);
  CHECK(spec.heads_kv == kDefaultHeads);
  CHECK(spec.seqlen_q == kDefaultSeqlen);
  CHECK(spec.seqlen_kv == kDefaultSeqlen);
  CHECK(spec.head_dim == kDefaultHeadDim);
  CHECK(spec.value_dim() == kDefaultHeadDim);
  CHECK_FALSE(spec.causal);
  CHECK_FALSE(spec.use_seqlens_q);
}

TEST_CASE("kv sizes follow those of q unless they are given") {
  ProblemFlags flags{.heads_q = 12, .seqlen_q = 300, .head_dim = 64};
  CHECK(make_case(flags).spec.heads_kv == 12);
  CHECK(make_case(flags).spec.seqlen_kv == 300);
  CHECK(make_case(flags).spec.value_dim() == 64);
  flags.heads_kv = 4;
  flags.seqlen_kv = 70;
  flags.head_dim_v = 32;
  CHECK(make_case(flags).spec.heads_kv == 4);
  CHECK(make_case(flags).spec.seqlen_kv == 70);
  CHECK(make_case(flags).spec.value_dim() == 32);
}

TEST_CASE("every flag reaches its field") {
  const ProblemFlags flags{.dtype = "fp16",
                           .batch = 3,
                           .causal = "bottom-right",
                           .window = "-1,0",
                           .mask = "b11k",
                           .mask_kind = "dead-rows",
                           .mask_density = 0.25,
                           .bias = "1hqk",
                           .bias_dtype = "fp32",
                           .bias_kind = "lowest",
                           .scalars = {{"scale", 0.5f}, {"softcap", 30.0f}},
                           .seqlens = true,
                           .layout = "bshd",
                           .seed = 9};
  const instance::ProblemSpec spec = make_case(flags).spec;
  CHECK(spec.dtype == DType::kFloat16);
  CHECK(spec.batch == 3);
  CHECK(spec.causal);
  CHECK(spec.diagonal == Diagonal::kBottomRight);
  CHECK(spec.window.left == -1);
  CHECK(spec.window.right == 0);
  CHECK(spec.mask == "b11k");
  CHECK(spec.mask_kind == tensor::MaskKind::kDeadRows);
  CHECK(spec.mask_density == 0.25);
  CHECK(spec.bias == "1hqk");
  CHECK(spec.bias_dtype == DType::kFloat32);
  CHECK(spec.bias_kind == tensor::BiasKind::kLowest);
  CHECK(spec.scale == 0.5f);
  CHECK(spec.softcap == 30.0f);
  CHECK(spec.use_seqlens_q);
  CHECK(spec.use_seqlens_kv);
  CHECK(spec.memory.layout == instance::Layout::kBshd);
  CHECK(spec.seed == 9);
}

TEST_CASE("a prepared mask needs a mask that has a prepared form") {
  CHECK(make_case({.mask = "b1qk", .prepared_mask = true}).spec.prepare_mask);
  CHECK(flags_error({.prepared_mask = true}).find("--prepared-mask has no effect without --mask") !=
        std::string::npos);
  CHECK_THROWS_WITH(make_case({.mask = "b1q1", .prepared_mask = true}),
                    doctest::Contains("expected one that varies over the keys"));
}

TEST_CASE("the lengths of packed sequences tell their number and how many rows there are") {
  ProblemFlags flags;
  flags.cu_seqlens_q = {0, 5, 70};
  const instance::ProblemSpec same = make_case(flags).spec;
  CHECK(same.packed);
  CHECK(same.batch == 2);
  CHECK(same.seqlen_q == 70);
  CHECK(same.cu_seqlens_kv == same.cu_seqlens_q);
  flags.cu_seqlens_kv = {0, 9, 9};
  flags.seqlen_kv = 20;
  CHECK(make_case(flags).spec.seqlen_kv == 20);
  flags.cu_seqlens_kv = {0, 9};
  CHECK_THROWS_WITH(make_case(flags), doctest::Contains("expected as many, 2 or more"));
  flags.cu_seqlens_kv = {};
  flags.batch = 3;
  CHECK_THROWS_WITH(make_case(flags), doctest::Contains("leave --batch out"));
  flags = {.cu_seqlens_q = {0, 50, 30}};
  CHECK_THROWS_WITH(make_case(flags), doctest::Contains("--cu-seqlens-q: 30 after 50; expected"));
  flags = {.cu_seqlens_q = {0, 30, 50}, .cu_seqlens_kv = {0, 9, 8}};
  CHECK_THROWS_WITH(make_case(flags), doctest::Contains("--cu-seqlens-kv: 8 after 9; expected"));
  flags = {.batch = 3, .packed = true};
  CHECK(make_case(flags).spec.packed);
  flags.cu_seqlens_kv = {0, 9};
  CHECK_THROWS_WITH(make_case(flags), doctest::Contains("without --cu-seqlens-q"));
}

TEST_CASE("pages of packed sequences have as many keys each as --seqlen-kv says") {
  ProblemFlags flags{.seqlen_kv = 96, .cu_seqlens_q = {0, 5, 70}, .page_size = 16};
  const instance::ProblemSpec spec = make_case(flags).spec;
  CHECK(spec.packed);
  CHECK(spec.batch == 2);
  CHECK(spec.seqlen_q == 70);
  CHECK(spec.seqlen_kv == 96);
  CHECK(spec.cu_seqlens_kv.empty());
  CHECK(make_problem(spec).paged());
  flags.cu_seqlens_kv = flags.cu_seqlens_q;
  CHECK(flags_error(flags).find("--cu-seqlens-kv has no effect with --page-size") !=
        std::string::npos);
  flags.cu_seqlens_kv.clear();
  flags.page_size = 0;
  CHECK(flags_error(flags).find("--page-size: 0; expected 1 or more") != std::string::npos);
  flags.page_size = 16;
  flags.bias = "1h1t";
  CHECK_THROWS_WITH(make_case(flags), doctest::Contains("of keys without pages"));
}

TEST_CASE("the diagonal comes from --causal, from --diagonal, in either spelling") {
  CHECK(make_case({.causal = "top_left"}).spec.diagonal == Diagonal::kTopLeft);
  CHECK(make_case({.causal = "", .diagonal = "top-left"}).spec.diagonal == Diagonal::kTopLeft);
  const auto windowed = make_case({.window = "4095,0", .diagonal = "bottom-right"}).spec;
  CHECK(windowed.diagonal == Diagonal::kBottomRight);
  CHECK(windowed.window.left == 4095);
  CHECK_FALSE(windowed.causal);
}

TEST_CASE("a flag that cannot stand names what to give instead") {
  CHECK(flags_error({.causal = ""}).find("add --diagonal bottom-right") != std::string::npos);
  CHECK(flags_error({.window = "8,8"}).find("add --diagonal") != std::string::npos);
  CHECK(flags_error({.diagonal = "top-left"})
            .find("--causal, --window, --alibi, --score or --keep") != std::string::npos);
  CHECK(make_case({.row_max = true}).spec.want_row_max);
  CHECK(make_case({.max_logits = true}).spec.want_max_logits);
  CHECK(flags_error({.backward = true, .max_logits = true})
            .starts_with("--max-logits has no effect with --backward; leave --max-logits out"));
  const auto sloped = make_case({.diagonal = "top-left", .diagonal_offset = 3, .alibi = "h"}).spec;
  CHECK(sloped.alibi == "h");
  CHECK(sloped.diagonal == Diagonal::kTopLeft);
  CHECK(sloped.diagonal_offset == 3);
  const Case packed =
      make_case({.batch = 3, .diagonal = "top-left", .packed = true, .alibi = "bh"});
  CHECK(instance::ShapeCall(packed.spec).forward().alibi_slopes->shape[0] ==
        3);  // of each sequence
  const auto paged =
      make_case({.seqlen_kv = 96, .page_size = 16, .shared_pages = 2, .tail_mask = "1"}).spec;
  CHECK(paged.page_size == 16);
  CHECK(paged.shared_pages == 2);
  CHECK(paged.tail_mask == "1");
  CHECK_FALSE(paged.use_seqlens_kv);
  CHECK(make_case({.blocks = "random:0.2/64"}).spec.blocks == "random:0.2/64");
  for (const char* blocks : {"random/64", "random:2/64", "random:0.1/0", "random:0.1/64/hb",
                             "random:0.1+x/64", "random:0.1/64x"}) {
    CAPTURE(blocks);
    const std::string error =
        error_of(ErrorKind::kInvalidProblem, [&] { make_case({.blocks = blocks}); });
    CHECK(error.starts_with("blocks '"));
  }
  CHECK(make_case({.key_indices = "topk:20/1g/int64"}).spec.key_indices == "topk:20/1g/int64");
  for (const char* indices : {"20", "topk:x", "topk:-1", "topk:20/hb", "topk:20/bg/int8"}) {
    CAPTURE(indices);
    const std::string error =
        error_of(ErrorKind::kInvalidProblem, [&] { make_case({.key_indices = indices}); });
    CHECK(error.starts_with("key_indices '"));
  }
  CHECK(flags_error({.shared_pages = 2}).find("--page-size") != std::string::npos);
  CHECK(flags_error({.causal = "top-left", .diagonal = "bottom-right"}).find("contradicts") !=
        std::string::npos);
  CHECK(flags_error({.causal = "upper"}).find("top-left, bottom-right") != std::string::npos);
  CHECK(flags_error({.dtype = "fp8"}).find("bf16, fp16") != std::string::npos);
  CHECK(flags_error({.layout = "sbhd"}).find("bhsd, bshd") != std::string::npos);
  CHECK(flags_error({.mask = "b11k", .mask_kind = "odd"}).find("dead-rows") != std::string::npos);
  CHECK(flags_error({.mask_kind = "suffix"}).find("--mask PATTERN") != std::string::npos);
  CHECK(flags_error({.mask_density = 0.5}).find("--mask PATTERN") != std::string::npos);
  CHECK(flags_error({.bias_dtype = "fp32"}).find("--bias PATTERN") != std::string::npos);
  CHECK(flags_error({.bias_kind = "normal"}).find("--bias PATTERN") != std::string::npos);
  CHECK(flags_error({.mask = "b11k", .mask_density = 1.5}).find("0 to 1") != std::string::npos);
  CHECK(flags_error({.bias = "1hqk", .bias_kind = "odd"}).find("lowest") != std::string::npos);
  for (const char* window : {"8", "8,", ",8", "-2,0", "a,b", "1,2,3", ""}) {
    CAPTURE(window);
    CHECK(flags_error({.window = window, .diagonal = "top-left"}).find("L,R") != std::string::npos);
  }
}

TEST_CASE("the flags of a backward reach their fields, and need --backward") {
  const auto spec = make_case({.bias = "1hqk",
                               .backward = true,
                               .dbias = true,
                               .dlse = true,
                               .deterministic = true,
                               .dbias_dtype = "fp32"})
                        .spec;
  CHECK(spec.backward);
  CHECK(spec.want_dbias);
  CHECK(spec.want_dlse);
  CHECK(spec.deterministic);
  CHECK(spec.dbias_dtype == DType::kFloat32);
  CHECK(make_case({.backward = true}).name.find("backward") != std::string::npos);
  for (const ProblemFlags& flags :
       {ProblemFlags{.dbias = true}, {.dlse = true}, {.deterministic = true}}) {
    CHECK(flags_error(flags).find("without --backward") != std::string::npos);
  }
  CHECK(flags_error({.backward = true, .dbias = true}).find("--bias PATTERN") != std::string::npos);
  CHECK(flags_error({.backward = true, .dbias_dtype = "fp32"}).find("without --dbias") !=
        std::string::npos);
}

TEST_CASE("sizes and patterns that contradict each other are an invalid problem") {
  const auto error = [](const ProblemFlags& flags) {
    return error_of(ErrorKind::kInvalidProblem, [&] { make_case(flags); });
  };
  CHECK(error({.heads_q = 8, .heads_kv = 3}).find("divisor") != std::string::npos);
  CHECK(error({.batch = -1}).find("batch") != std::string::npos);
  CHECK(error({.mask = "qqqq"}).find("mask: pattern") != std::string::npos);
  CHECK(error({.dtype = "bf16", .bias = "1hqk", .bias_dtype = "fp16"}).find("bias_dtype") !=
        std::string::npos);
}

TEST_CASE("--path has three values") {
  CHECK(!read_path("auto"));
  CHECK(read_path("mma") == codegen::Path::kMma);
  CHECK(read_path("wgmma") == codegen::Path::kWgmma);
  const auto unknown = error_of(ErrorKind::kInvalidEnvironment, [&] { read_path("fast"); });
  CHECK(unknown.find("auto, mma, wgmma") != std::string::npos);
}

TEST_CASE("--manifest and a problem's flags exclude each other") {
  WorkloadOptions options;
  options.manifest = "models.json";
  options.problem.batch = 2;
  std::ostringstream text;
  Console console(text, text, false, Verbosity::kNormal);
  const auto error =
      error_of(ErrorKind::kInvalidEnvironment, [&] { load_workload(options, console); });
  CHECK(error.find("leave the flags") != std::string::npos);
}

TEST_CASE("--config is a JSON object or a file") {
  const test::TempDirectory directory;
  CHECK(read_config("") == std::nullopt);
  CHECK(read_config(" {\"block_q\": 64}") == " {\"block_q\": 64}");
  test::write_file(directory / "config.json", "{\"num_warps\": 4}");
  CHECK(read_config((directory / "config.json").string()) == "{\"num_warps\": 4}");
  const auto error = error_of(ErrorKind::kInvalidEnvironment,
                              [&] { read_config((directory / "absent").string()); });
  CHECK(error.find("cannot read") != std::string::npos);
}

}  // namespace
}  // namespace attnjit::cli
