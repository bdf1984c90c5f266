#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "codegen/features.hpp"
#include "codegen/kernels/rows.hpp"
#include "codegen/render.hpp"
#include "unit/template_text.hpp"

using namespace attnjit;

namespace codegen_backward_render_test {
using codegen::BackwardTunables;
using codegen::DbiasMethod;
using codegen::Source;
using codegen::TemplateSet;
using problem::BackwardFamily;
using problem::Extent;
using test::code_of;
using test::identifiers;

namespace {

template <class Change>
BackwardFamily with(Change change) {
  BackwardFamily f;
  f.scores.head_dim = f.scores.head_dim_v = 64;
  f.scores.gqa_ratio = 4;
  f.scores.aligned = true;
  change(f);
  return f;
}
BackwardFamily plain() {
  return with([](BackwardFamily&) {});
}
BackwardFamily with_dbias(Extent extent, bool reduces) {
  return with([=](BackwardFamily& f) {
    f.scores.bias = Extent::kPerPair;
    f.dbias = extent;
    f.dbias_vectorized = true;
    f.dbias_reduces_planes = reduces;
  });
}

BackwardTunables tunables(const BackwardFamily& f) {
  BackwardTunables t;
  t.dbias_method = codegen::default_dbias_method(f);
  t.dkv = t.dbias = {codegen::Path::kMma, 64, 64, 1, 4, 2, 1};
  t.dq = {codegen::Path::kMma, 64, 64, 1, 4, 4, 1};
  return t;
}

// The three kernels that compute scores.
Source dkv(const BackwardFamily& f) { return codegen::render_dkv(f, tunables(f), TemplateSet()); }
Source dq(const BackwardFamily& f) { return codegen::render_dq(f, tunables(f), TemplateSet()); }
Source dbias(const BackwardFamily& f) {
  return codegen::render_dbias(f, tunables(f), TemplateSet());
}

// The headers of the features that backward kernels of `f` have.
std::vector<std::string> headers(const BackwardFamily& f) {
  std::vector<std::string> list;
  for (const auto* feature : codegen::features(f.scores, codegen::Pass::kBackward)) {
    list.push_back(feature->header);
  }
  return list;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// A feature's header, a word of its own, and a family that has it and nothing else.
struct Feature {
  const char* header;
  const char* word;
  BackwardFamily family;
};

std::vector<Feature> features() {
  return {
      {"bias.cuh", "Bias", with([](BackwardFamily& f) { f.scores.bias = Extent::kPerPair; })},
      {"backward_mask.cuh", "BackwardMask",
       with([](BackwardFamily& f) { f.scores.mask = Extent::kPerKey; })},
      {"packed_keys_mask.cuh", "PackedKeysMask", with([](BackwardFamily& f) {
         f.scores.mask = Extent::kPerKey;
         f.scores.mask_packs_keys = true;
       })},
      {"band.cuh", "Band", with([](BackwardFamily& f) { f.scores.bounded_left = true; })},
      {"seqlens.cuh", "Seqlens", with([](BackwardFamily& f) { f.scores.seqlens = true; })},
  };
}

}  // namespace

TEST_CASE("dbias is added up by group where batch elements share its planes in groups") {
  BackwardFamily family = with_dbias(Extent::kPerPair, true);
  CHECK_FALSE(contains(dkv(family).text, "BatchGroups"));
  family.dbias_groups_batch = true;
  CHECK(contains(dkv(family).stub, "BatchGroupsGrad<BiasGradAdd>(dbias)"));
  family.deterministic = true;  // the kernel of dbias has a thread block per plane
  CHECK_FALSE(contains(dkv(family).text, "BatchGroups"));
  CHECK(contains(dbias(family).stub, "BatchGroupsGrad<BiasGradStore<"));
  CHECK(contains(dbias(family).stub, "Grouped<BiasGradParams> dbias"));
  family.dbias_groups_batch = false;
  CHECK_FALSE(contains(dbias(family).text, "BatchGroups"));
}

TEST_CASE("a feature that a backward lacks leaves no word in its kernels") {
  for (const auto render : {dkv, dq, dbias}) {
    const std::set<std::string> without = identifiers(code_of(render(plain()).text));
    for (const Feature& feature : features()) {
      CAPTURE(feature.header);
      const Source source = render(feature.family);
      CHECK(contains(source.text, std::string("// ---- attnjit/score/") + feature.header));
      CHECK(identifiers(code_of(source.text)).contains(feature.word));
      CHECK_FALSE(without.contains(feature.word));
      for (const Feature& other : features()) {
        if (other.word == feature.word) continue;
        CHECK_FALSE(contains(source.text, std::string("// ---- attnjit/score/") + other.header));
      }
    }
  }
}

TEST_CASE("a mask that is the same for all keys of a row is in lse, and not in the kernels") {
  const BackwardFamily rows = with([](BackwardFamily& f) { f.scores.mask = Extent::kPerQuery; });
  CHECK(headers(rows) == std::vector<std::string>{"length.cuh"});
  CHECK(code_of(dkv(rows).stub) == code_of(dkv(plain()).stub));
}

TEST_CASE("a bias that is the same for all keys of a row is the preprocess kernel's business") {
  const BackwardFamily rows = with([](BackwardFamily& f) { f.scores.bias = Extent::kPerQuery; });
  CHECK(headers(rows) == std::vector<std::string>{"length.cuh"});
  CHECK(code_of(dkv(rows).stub) == code_of(dkv(plain()).stub));
  CHECK(codegen::preprocess_config(rows, tunables(rows), {}).row_bias);
  CHECK_FALSE(codegen::preprocess_config(plain(), tunables(plain()), {}).row_bias);
}

TEST_CASE("features of a backward come in one order") {
  const BackwardFamily f = with([](BackwardFamily& all) {
    all.scores.mask = Extent::kPerKey;
    all.scores.bias = Extent::kPerPair;
    all.scores.bounded_right = true;
    all.scores.seqlens = true;
  });
  CHECK(headers(f) ==
        std::vector<std::string>{"seqlens.cuh", "bias.cuh", "backward_mask.cuh", "band.cuh"});
  CHECK(headers(plain()) == std::vector<std::string>{"length.cuh"});
  const std::string stub = dkv(f).stub;
  std::size_t last = 0;
  for (const char* part :
       {"BackwardParams params,", "SeqlensParams seqlens,", "OperandParams bias,",
        "BackwardMaskParams mask,", "BandParams band) {"}) {
    CAPTURE(part);
    const std::size_t at = stub.find(part);
    REQUIRE(at != std::string::npos);
    CHECK(at > last);
    last = at;
  }
}

TEST_CASE("a dbias is mentioned by the kernel that computes it alone") {
  const auto words = [](const Source& source) { return identifiers(code_of(source.text)); };
  CHECK_FALSE(words(dkv(plain())).contains("BiasGradParams"));
  CHECK(contains(dkv(plain()).stub, "NoBiasGrad{}"));
  CHECK(contains(dkv(with_dbias(Extent::kPerPair, false)).stub,
                 "BiasGradStore<DType::kFloat32, true>(dbias)"));
  CHECK(contains(dkv(with_dbias(Extent::kPerPair, true)).stub, "BiasGradAdd(dbias)"));
  CHECK(contains(dkv(with_dbias(Extent::kPerKey, true)).stub,
                 "BiasGradColumns<kConfig.warp_keys() / 32>(dbias)"));
  // A dbias that does not vary over keys needs no score.
  CHECK_FALSE(words(dkv(with_dbias(Extent::kPerQuery, true))).contains("BiasGradParams"));
  const BackwardFamily reduced = with_dbias(Extent::kPerPair, true);
  CHECK(contains(dbias(reduced).stub, "BiasPlanes planes"));
  CHECK_FALSE(words(dq(reduced)).contains("BiasGradParams"));
  BackwardTunables apart = tunables(reduced);
  apart.dbias_method = DbiasMethod::kKernel;
  const Source elsewhere = codegen::render_dkv(reduced, apart, TemplateSet());
  CHECK_FALSE(contains(elsewhere.stub, "dbias)"));
}

TEST_CASE("dq is added up where no kernel of its own computes it") {
  const BackwardFamily f = plain();
  BackwardTunables t = tunables(f);
  CHECK(contains(dkv(f).stub, ".adds_dq = true"));
  t.dq_method = codegen::DqMethod::kKernel;
  const Source without = codegen::render_dkv(f, t, TemplateSet());
  CHECK(contains(without.stub, ".adds_dq = false"));
  CHECK(contains(dq(f).stub, ".adds_dq = false"));
}

TEST_CASE("the order in which keys come to dq is the method's, and a deterministic backward's") {
  using codegen::DqMethod;
  BackwardTunables t = tunables(plain());
  t.dkv = {codegen::Path::kWgmma, 64, 128, 1, 16, 2, 1};
  const auto order = [&t](DqMethod method, bool deterministic) {
    t.dq_method = method;
    const BackwardFamily f = with([=](BackwardFamily& g) { g.deterministic = deterministic; });
    return codegen::dkv_wgmma_config(f, t).dq_order;
  };
  CHECK(order(DqMethod::kAdd, false) == kernel::DqOrder::kAny);
  CHECK(order(DqMethod::kAdd, true) == kernel::DqOrder::kKeys);
  CHECK(order(DqMethod::kFirstStores, false) == kernel::DqOrder::kFirstStores);
  CHECK(order(DqMethod::kOwnKvHead, true) == kernel::DqOrder::kAny);
}

TEST_CASE("entries and titles of a backward's kernels") {
  const BackwardFamily f = with_dbias(Extent::kPerPair, true);
  CHECK(dkv(f).entry == "attn_bwd_dkv");
  CHECK(dq(f).entry == "attn_bwd_dq");
  CHECK(dbias(f).entry == "attn_bwd_dbias");
  CHECK(dkv(f).title.find("attn_bwd_dkv bf16 d64 gqa4 ") == 0);
  CHECK(contains(dkv(f).title, " | q64 kv64 s1 w4 qw2 b1 dq"));
  for (const auto render : {dkv, dq, dbias}) {
    const Source source = render(f);
    CHECK(contains(source.text, "extern \"C\" __global__"));
    CHECK_FALSE(contains(source.text, "#include"));
    CHECK(contains(source.text, source.title));
  }
}

TEST_CASE("a backward converts its mask in the orders in which its kernels read it") {
  using codegen::DqMethod;
  const auto config = [](const BackwardFamily& f, codegen::Path path, DqMethod method) {
    BackwardTunables t{.dq_method = method};
    t.dkv.path = path;
    return codegen::mask_to_bits_config(f, t, codegen::facts(codegen::dkv_kernel(f, t)));
  };
  const auto mma = [&](const BackwardFamily& f) {
    return config(f, codegen::Path::kMma, codegen::DqMethod::kAdd);
  };
  CHECK(mma(plain()) == std::nullopt);
  CHECK(mma(with([](BackwardFamily& f) { f.scores.mask = Extent::kPerQuery; })) == std::nullopt);
  BackwardFamily masked = with([](BackwardFamily& f) { f.scores.mask = Extent::kPerPair; });
  REQUIRE(mma(masked));
  CHECK(mma(masked)->per_pair);
  CHECK(mma(masked)->by_rows);
  CHECK_FALSE(mma(masked)->by_keys);
  const auto wgmma = config(masked, codegen::Path::kWgmma, DqMethod::kAdd);
  CHECK_FALSE(wgmma->by_rows);
  CHECK(wgmma->by_keys);
  CHECK(config(masked, codegen::Path::kWgmma, DqMethod::kKernel)->by_rows);
  BackwardTunables dbias{.dbias_method = DbiasMethod::kKernel};
  CHECK(codegen::mask_to_bits_config(masked, dbias, {.keys_in_rows = true})->by_rows);
  masked.scores.mask_prepared = true;
  CHECK(mma(masked) == std::nullopt);
  // A row that all queries share has no columns.
  const BackwardFamily row = with([](BackwardFamily& f) { f.scores.mask = Extent::kPerKey; });
  CHECK(config(row, codegen::Path::kWgmma, DqMethod::kAdd)->by_rows);
  CHECK_FALSE(config(row, codegen::Path::kWgmma, DqMethod::kAdd)->by_keys);
}

TEST_CASE("a mask's memory and the kernel that prepared it make no other kernels of a backward") {
  BackwardFamily masked = with([](BackwardFamily& f) { f.scores.mask = Extent::kPerPair; });
  const std::string texts[] = {dkv(masked).text, dq(masked).text, dbias(masked).text};
  for (const bool prepared : {false, true}) {
    masked.scores.mask_vectorized = true;
    masked.scores.mask_prepared = prepared;
    CHECK(dkv(masked).text == texts[0]);
    CHECK(dq(masked).text == texts[1]);
    CHECK(dbias(masked).text == texts[2]);
  }
}

TEST_CASE("a backward's small kernels take what they need from the family") {
  const BackwardFamily masked = with([](BackwardFamily& f) { f.scores.mask = Extent::kPerPair; });
  for (const DbiasMethod method : {DbiasMethod::kNone, DbiasMethod::kStore}) {
    CHECK(codegen::bias_sum_config(masked, method) == std::nullopt);
  }
  for (const DbiasMethod method :
       {DbiasMethod::kRows, DbiasMethod::kColumns, DbiasMethod::kAdd, DbiasMethod::kKernel}) {
    CHECK(codegen::bias_sum_config(masked, method) != std::nullopt);
  }
  const Source sum =
      codegen::render_fragment_sum(codegen::fragment_sum_config(plain(), 40, true), TemplateSet());
  CHECK(sum.entry == "fragment_sum");
  CHECK(contains(sum.stub, ".head_dim = 40"));
  CHECK(contains(sum.stub, ".stored = true"));
}

}  // namespace codegen_backward_render_test
