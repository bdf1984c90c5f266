#include "codegen/render.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "codegen/features.hpp"
#include "codegen/kernels/rows.hpp"
#include "unit/template_text.hpp"

using namespace attnjit;

namespace codegen_render_test {
using attnjit::test::code_of;
using attnjit::test::identifiers;
using codegen::Source;
using codegen::TemplateSet;
using problem::Extent;
using problem::Family;

namespace {

Family plain() {
  Family f;
  f.head_dim = f.head_dim_v = 128;
  f.gqa_ratio = 4;
  f.aligned = true;
  return f;
}

template <class Change>
Family with(Change change) {
  Family f = plain();
  change(f);
  return f;
}

constexpr codegen::ForwardTunables kTunables{
    .block_q = 128, .block_kv = 64, .num_stages = 2, .num_warps = 8, .min_blocks = 1};

Source render(const Family& f) { return codegen::render_forward(f, kTunables, TemplateSet()); }

// The headers of the features that forward kernels of `f` have.
std::vector<std::string> headers(const Family& f) {
  std::vector<std::string> list;
  for (const auto* feature : codegen::features(f, codegen::Pass::kForward)) {
    list.push_back(feature->header);
  }
  return list;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// A feature's header, and a family that has it and nothing else.
struct Feature {
  std::string header;
  Family family;
};

std::vector<Feature> features() {
  return {
      {"bias.cuh", with([](Family& f) { f.bias = Extent::kPerPair; })},
      {"row_bias.cuh", with([](Family& f) { f.bias = Extent::kPerQuery; })},
      {"bit_mask.cuh", with([](Family& f) { f.mask = Extent::kPerPair; })},
      {"row_mask.cuh", with([](Family& f) { f.mask = Extent::kPerQuery; })},
      {"band.cuh", with([](Family& f) { f.bounded_right = true; })},
      {"seqlens.cuh", with([](Family& f) { f.seqlens = true; })},
      {"row_max.cuh", with([](Family& f) { f.row_max = true; })},
      {"paged_keys.cuh", with([](Family& f) { f.page_size = 16; })},
      {"tail_mask.cuh", with([](Family& f) { f.tail_mask = true; })},
  };
}

std::set<std::string> names_in(const std::string& text) {
  std::set<std::string> names = identifiers(code_of(text));
  names.erase("true");
  names.erase("false");
  return names;
}

std::set<std::string> difference(const std::set<std::string>& a, const std::set<std::string>& b) {
  std::set<std::string> result;
  std::ranges::set_difference(a, b, std::inserter(result, result.end()));
  return result;
}

}  // namespace

TEST_CASE("operands whose planes batch elements share in groups are told the group") {
  const Family bias = with([](Family& f) {
    f.bias = f.mask = Extent::kPerPair;
    f.bias_groups_batch = true;
  });
  CHECK(contains(render(bias).stub, "BatchGroups<Bias<"));
  CHECK_FALSE(contains(render(bias).stub, "BatchGroups<BitMask<"));
  Family both = bias;
  both.mask_groups_batch = true;
  CHECK(contains(render(both).stub, "BatchGroups<BitMask<"));
  Family neither = bias;
  neither.bias_groups_batch = false;
  CHECK_FALSE(contains(render(neither).text, "BatchGroups"));
}

TEST_CASE("a feature that the problem lacks leaves no word in the source") {
  const std::set<std::string> without = names_in(render(plain()).text);
  for (const Feature& feature : features()) {
    CAPTURE(feature.header);
    const std::string header = TemplateSet().text("attnjit/score/" + feature.header);
    // Names that only this header has, as far as the plain kernel's templates go.
    const std::set<std::string> own = difference(
        names_in(header), names_in(codegen::flatten("#include \"attnjit/forward/mma/kernel.cuh\"\n"
                                                    "#include \"attnjit/score/length.cuh\"\n",
                                                    TemplateSet())));
    REQUIRE_FALSE(own.empty());
    const Source source = render(feature.family);
    const std::set<std::string> names = names_in(source.text);
    for (const std::string& name : own) {
      CAPTURE(name);
      CHECK_FALSE(without.contains(name));
      CHECK(names.contains(name));
    }
    CHECK(contains(source.text, "// ---- attnjit/score/" + feature.header));
    for (const Feature& other : features()) {
      if (other.header == feature.header) continue;
      CHECK_FALSE(contains(source.text, "// ---- attnjit/score/" + other.header));
      CHECK_FALSE(contains(source.stub, "/" + other.header));
    }
  }
}

TEST_CASE("the plain kernel has one parameter and the length policy alone") {
  const Source source = render(plain());
  CHECK(headers(plain()) == std::vector<std::string>{"length.cuh"});
  CHECK(contains(source.stub,
                 "attn_fwd(\n    const __grid_constant__ ForwardParams params) {\n"
                 "  forward_mma<kConfig>(params,\n    Length<kScores>());"));
  for (const Feature& feature : features()) CHECK_FALSE(contains(source.text, feature.header));
}

TEST_CASE("features come in one order, whatever asked for them") {
  const Family f = with([](Family& all) {
    all.mask = Extent::kPerKey;
    all.bias = Extent::kPerPair;
    all.bias_dtype = DType::kFloat32;
    all.bounded_left = true;
    all.seqlens = true;
  });
  CHECK(headers(f) ==
        std::vector<std::string>{"seqlens.cuh", "bias.cuh", "bit_mask.cuh", "band.cuh"});
  const std::string stub = render(f).stub;
  for (const std::string part :
       {"const __grid_constant__ SeqlensParams seqlens,\n",
        "const __grid_constant__ OperandParams bias,\n",
        "const __grid_constant__ BitMaskParams mask,\n",
        "const __grid_constant__ BandParams band) {", "Seqlens(seqlens)",
        "Bias<kScores, DType::kFloat32, Extent::kPerPair, false>(bias)",
        "BitMask<kScores, Extent::kPerKey>(mask)", "Band<kScores, true, false>(band)"}) {
    CAPTURE(part);
    CHECK(contains(stub, part));
  }
  CHECK_FALSE(contains(stub, "Length<"));
  CHECK(headers(with([](Family& g) {
          g.mask = g.bias = Extent::kPerQuery;
          g.bounded_right = true;
        })) == std::vector<std::string>{"row_bias.cuh", "row_mask.cuh", "band.cuh"});
}

TEST_CASE("the stub states the title and every value of the config") {
  const Family f = with([](Family& g) {
    g.dtype = DType::kFloat16;
    g.head_dim_v = 64;
    g.bounded_right = true;
  });
  const Source source = render(f);
  CHECK(source.entry == "attn_fwd");
  CHECK(source.title == "attn_fwd fp16 d128 dv64 gqa4 right | q128 kv64 s2 w8 b1 max_free");
  CHECK(source.stub.starts_with("// " + source.title +
                                "\n#include \"attnjit/forward/mma/kernel.cuh\"\n"));
  CHECK(source.text.starts_with("// " + source.title + "\n"));
  CHECK(contains(source.stub,
                 "inline constexpr ForwardMmaConfig kConfig{\n    .dtype = DType::kFloat16,\n"
                 "    .head_dim = 128,\n    .head_dim_v = 64,\n    .gqa_ratio = 4,\n"
                 "    .aligned = true,\n    .scale_first = false,\n    .pack_gqa = false,\n    "
                 ".block_q = 128,\n"
                 "    .block_kv = 64,\n    .num_stages = 2,\n    .num_warps = 8,\n"
                 "    .min_blocks = 1,\n    .softmax = SoftmaxPolicy::kMaxFree,\n};\n"));
  CHECK(contains(source.stub,
                 "extern \"C\" __global__ void __launch_bounds__(kConfig.num_threads(), "
                 "kConfig.min_blocks)\nattn_fwd(\n"));
}

TEST_CASE("the mask prepass has a stub of its own") {
  const Source source = codegen::render_mask_to_bits(
      {.per_pair = true, .vectorized = false, .by_rows = true, .by_keys = false}, TemplateSet());
  CHECK(source.entry == "mask_to_bits");
  CHECK(source.title == "mask_to_bits qk scalar");
  CHECK(contains(source.stub,
                 "    .per_pair = true,\n    .vectorized = false,\n    .by_rows = true,\n"
                 "    .by_keys = false,\n};\n"));
  CHECK(contains(source.text, "// ---- attnjit/prepass/mask_to_bits.cuh"));
  CHECK_FALSE(contains(source.text, "#include"));
}

TEST_CASE("a config takes from the family what it must, and scales early where it must") {
  const auto scale_first = [](auto change) {
    return codegen::forward_mma_config(with(change), kTunables).scale_first;
  };
  CHECK_FALSE(scale_first([](Family&) {}));
  CHECK_FALSE(scale_first([](Family& f) { f.mask = Extent::kPerPair; }));
  CHECK_FALSE(scale_first([](Family& f) { f.bias = Extent::kPerQuery; }));
  CHECK(scale_first([](Family& f) { f.bias = Extent::kPerKey; }));
  CHECK(scale_first([](Family& f) { f.bias = Extent::kPerPair; }));
  CHECK(scale_first([](Family& f) { f.positive_scale = false; }));
  CHECK(scale_first([](Family& f) { f.softcap = true; }));
  const kernel::ForwardMmaConfig c = codegen::forward_mma_config(with([](Family& f) {
                                                                   f.head_dim_v = 64;
                                                                   f.aligned = false;
                                                                   f.dtype = DType::kFloat16;
                                                                 }),
                                                                 kTunables);
  CHECK(c.dtype == kernel::DType::kFloat16);
  CHECK(c.head_dim == 128);
  CHECK(c.head_dim_v == 64);
  CHECK(c.gqa_ratio == 4);
  CHECK_FALSE(c.aligned);
}

TEST_CASE("families that differ have sources that differ, mask vectors and bias types included") {
  std::map<std::string, std::string> seen;  // text to title
  std::size_t families = 0;
  const auto add = [&](const Family& f) {
    ++families;
    seen.emplace(render(f).text, problem::describe(f));
  };
  add(plain());
  for (const Feature& feature : features()) add(feature.family);
  add(with([](Family& f) { f.dtype = DType::kFloat16; }));
  add(with([](Family& f) { f.gqa_ratio = 1; }));
  add(with([](Family& f) { f.aligned = false; }));
  add(with([](Family& f) { f.positive_scale = false; }));
  add(with([](Family& f) { f.mask = Extent::kPerKey; }));
  add(with([](Family& f) { f.bias = Extent::kPerKey; }));
  add(with([](Family& f) { f.bounded_left = true; }));
  add(with([](Family& f) { f.bounded_left = f.bounded_right = true; }));
  for (const bool vectorized : {false, true}) {
    add(with([&](Family& f) {
      f.bias = Extent::kPerPair;
      f.bias_dtype = DType::kFloat32;
      f.bias_vectorized = vectorized;
    }));
  }
  add(with([](Family& f) {
    f.bias = Extent::kPerQuery;
    f.bias_dtype = DType::kFloat32;
  }));
  CHECK(seen.size() == families);
}

}  // namespace codegen_render_test
