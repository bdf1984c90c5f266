#include <doctest/doctest.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "tuner/config_zero.hpp"
#include "tuner/space.hpp"

using namespace attnjit;
using problem::Extent;
using problem::Family;
using problem::PlanKey;
using tuner::config_zero;

namespace {

constexpr int kBuckets[] = {1, 16, 64, 128, 256, 1024, 32768};

PlanKey key(int head_dim, int head_dim_v, int bucket_q) {
  Family f;
  f.head_dim = head_dim;
  f.head_dim_v = head_dim_v;
  f.gqa_ratio = 4;
  f.aligned = head_dim % 8 == 0 && head_dim_v % 8 == 0;
  return {f, bucket_q, 1024};
}

}  // namespace

TEST_CASE("configuration 0 is legal for every width, bucket and architecture") {
  std::size_t checked = 0, illegal = 0;  // half a million assertions would take their time
  for (const codegen::Arch& arch : codegen::archs()) {
    for (int head_dim = 1; head_dim <= 256; ++head_dim) {
      for (const int head_dim_v : {1, 8, 33, 64, 65, 128, 129, 192, 256, head_dim}) {
        for (const int bucket : kBuckets) {
          const PlanKey k = key(head_dim, head_dim_v, bucket);
          const auto rule = codegen::why_unfit(config_zero(k, arch), k.family, arch);
          ++checked;
          if (!rule) continue;
          ++illegal;
          MESSAGE(arch.name, " d", head_dim, " dv", head_dim_v, " q", bucket, ": ", *rule);
        }
      }
    }
  }
  CHECK(checked == codegen::archs().size() * 256 * 10 * std::size(kBuckets));
  CHECK(illegal == 0);
}

TEST_CASE("configuration 0 is legal for pages of any size") {
  for (const char* name : {"sm_80", "sm_90a"}) {
    const codegen::Arch& arch = codegen::find_arch(name);
    for (const int head_dim : {64, 128, 192, 256}) {
      for (const int bucket : kBuckets) {
        for (int page_size = 1; page_size <= 512; ++page_size) {
          PlanKey k = key(head_dim, head_dim, bucket);
          k.family.seqlens = true;
          k.family.page_size = page_size;
          const codegen::ForwardTunables config = config_zero(k, arch);
          const bool whole_pages = page_size == 16 || page_size % 32 == 0;
          if (!whole_pages) REQUIRE(config.path == codegen::Path::kMma);
          REQUIRE(codegen::why_unfit(config, k.family, arch).value_or("") == "");
        }
      }
    }
  }
}

TEST_CASE("few rows get no tile that is mostly padding") {
  for (const codegen::Arch& arch : codegen::archs()) {
    for (const int head_dim : {8, 64, 80, 128, 192, 256}) {
      for (const int bucket : {1, 16, 64}) {
        const PlanKey k = key(head_dim, head_dim, bucket);
        const auto config = config_zero(k, arch);
        const int rows = bucket * (config.pack_gqa ? k.family.gqa_ratio : 1);
        CHECK(config.block_q <= std::max(64, rows));
      }
    }
  }
}

TEST_CASE("many short planes are a tile each, where it fits") {
  const codegen::Arch& hopper = codegen::find_arch("sm_90a");
  PlanKey k = key(32, 32, 144);
  k.family.gqa_ratio = 1;
  k.bucket_kv = 130;
  k.bucket_planes = 256;
  for (const codegen::Arch& arch : codegen::archs()) {
    const codegen::ForwardTunables config = config_zero(k, arch);
    CHECK(config.path == codegen::Path::kSingleTile);
    CHECK(config.block_q == 144);
    CHECK(config.block_kv == 160);
  }
  const auto takes = [&](auto change) {
    PlanKey other = k;
    change(other);
    return config_zero(other, hopper).path == codegen::Path::kSingleTile;
  };
  CHECK_FALSE(takes([](PlanKey& o) { o.bucket_planes = 64; }));
  CHECK_FALSE(takes([](PlanKey& o) { o.bucket_q = 224; }));
  CHECK_FALSE(takes([](PlanKey& o) { o.bucket_kv = 512; }));
  CHECK_FALSE(takes([](PlanKey& o) { o.bucket_kv = 64; }));
  CHECK_FALSE(takes([](PlanKey& o) { o.family.bounded_right = true; }));
  CHECK_FALSE(takes([](PlanKey& o) { o.family.head_dim_v = 80; }));
  CHECK_FALSE(takes([](PlanKey& o) { o.family.gqa_ratio = 4; }));

  problem::BackwardPlanKey backward{
      .family = {.scores = k.family}, .bucket_q = 144, .bucket_kv = 144, .bucket_planes = 256};
  const auto dkv = [&](int head_dim, const char* arch) {
    backward.family.scores.head_dim = backward.family.scores.head_dim_v = head_dim;
    return codegen::describe_tile(config_zero(backward, codegen::find_arch(arch)).dkv);
  };
  CHECK(dkv(32, "sm_90a") == "single_tile q144 kv160 s2 b1");
  CHECK(dkv(32, "sm_80") == "single_tile q144 kv160 s1 b1");
  CHECK(dkv(32, "sm_86").find("single_tile") == std::string::npos);
  CHECK(dkv(64, "sm_90a") == "single_tile q144 kv160 s1 b1");
}

TEST_CASE("a backward of lists of blocks of 64 keys has a third stage where it passes tiles") {
  const codegen::Arch& arch = codegen::find_arch("sm_90a");
  const auto tile = [&](int head_dim, const char* keep, bool deterministic = false) {
    problem::BackwardPlanKey k{
        .family = {.scores = {.head_dim = head_dim, .head_dim_v = head_dim, .aligned = true},
                   .deterministic = deterministic},
        .bucket_q = 32768,
        .bucket_kv = 32768};
    k.family.scores.keep = expr::Ref::parse(keep);
    const codegen::BackwardTunables config = config_zero(k, arch);
    CHECK(codegen::why_unfit(config, k.family, arch).value_or("") == "");
    return codegen::describe_tile(config.dkv);
  };
  constexpr const char* kLists = "keep i0[b, h, i // 64, j // 64] > 0; int32";
  CHECK(tile(128, kLists) == "wgmma q64 kv128 s3");
  CHECK(tile(128, kLists, true) == "wgmma q64 kv128 s2");
  CHECK(tile(128, "keep i0[b, h, i // 128, j // 64] > 0; int32") == "wgmma q64 kv128 s3");
  CHECK(tile(128, "keep i0[b, h, i // 64, j // 128] > 0; int32") == "wgmma q64 kv128 s2");
  CHECK(tile(128, "keep b0[i // 64, j // 64] && j <= i || b1[i // 64, j // 64]; bool, bool") ==
        "wgmma q64 kv128 s2");
  CHECK(tile(64, kLists) == "wgmma q64 kv128 s3");
  CHECK(tile(64, "keep i0[b, h, i // 128, j // 64] > 0; int32") == "wgmma q128 kv128 s2");
}

TEST_CASE("a backward whose batch elements share a bias keeps strips of it") {
  problem::BackwardPlanKey key{.bucket_q = 384, .bucket_kv = 384, .bucket_planes = 1024};
  problem::Family& scores = key.family.scores;
  scores.head_dim = scores.head_dim_v = 32;
  scores.aligned = scores.bias_vectorized = true;
  scores.bias = key.family.dbias = problem::Extent::kPerPair;
  key.family.dbias_reduces_planes = true;
  const auto tiles = [](const problem::BackwardPlanKey& k, const char* arch) {
    return codegen::describe_tile(config_zero(k, codegen::find_arch(arch)));
  };
  const std::string strips = "shared_bias q384 kv64 s2, dq shared_bias q64 kv384 s2";
  CHECK(tiles(key, "sm_90a") == strips);
  CHECK(config_zero(key, codegen::find_arch("sm_90a")).dbias_method ==
        codegen::DbiasMethod::kPerBlock);
  CHECK(tiles(key, "sm_86").find("shared_bias") == std::string::npos);
  const auto takes = [&](auto change) {
    problem::BackwardPlanKey other = key;
    change(other);
    return tiles(other, "sm_90a").find("shared_bias") != std::string::npos;
  };
  using Key = problem::BackwardPlanKey;
  CHECK(takes([](Key& k) { k.family.scores.mask = problem::Extent::kPerKey; }));
  CHECK(takes([](Key& k) { k.bucket_q = k.bucket_kv = 256, k.family.deterministic = true; }));
  CHECK(takes([](Key& k) { k.bucket_q = k.bucket_kv = 768, k.family.deterministic = true; }));
  CHECK_FALSE(takes([](Key& k) { k.bucket_q = k.bucket_kv = 256; }));
  CHECK_FALSE(takes([](Key& k) { k.bucket_planes = 64; }));
  CHECK_FALSE(takes([](Key& k) { k.family.dbias_reduces_few = true; }));
  CHECK_FALSE(takes([](Key& k) { k.family.scores.mask = problem::Extent::kPerPair; }));
  CHECK_FALSE(takes([](Key& k) { k.family.scores.bounded_right = true; }));
  CHECK_FALSE(takes([](Key& k) { k.family.scores.gqa_ratio = 2; }));
  CHECK_FALSE(takes([](Key& k) { k.family.scores.head_dim = 64; }));
  CHECK_FALSE(takes([](Key& k) { k.family.scores.keep = expr::Ref::parse("keep j <= i"); }));
}

TEST_CASE("a forward whose batch elements share a bias keeps strips of it") {
  PlanKey key{.bucket_q = 512, .bucket_kv = 384, .bucket_planes = 1024};
  key.family.head_dim = key.family.head_dim_v = 32;
  key.family.aligned = key.family.bias_vectorized = true;
  key.family.bias = problem::Extent::kPerPair;
  const auto tile = [](const PlanKey& k, const char* arch = "sm_90a") {
    return codegen::describe_tile(config_zero(k, codegen::find_arch(arch)));
  };
  CHECK(tile(key) == "shared_bias q64 kv384");
  CHECK(tile(key, "sm_80").find("shared_bias") == std::string::npos);
  const auto other = [&](auto change) {
    PlanKey k = key;
    change(k);
    return tile(k);
  };
  CHECK(other([](PlanKey& k) { k.bucket_kv = 288; }) == "shared_bias q64 kv288");
  CHECK(other([](PlanKey& k) { k.family.mask = problem::Extent::kPerKey; }) ==
        "shared_bias q64 kv384");
  const auto takes = [&](auto change) { return other(change).starts_with("shared_bias"); };
  CHECK_FALSE(takes([](PlanKey& k) { k.bucket_kv = 512; }));
  CHECK_FALSE(takes([](PlanKey& k) { k.bucket_planes = 64; }));
  CHECK_FALSE(takes([](PlanKey& k) { k.family.aligned = false; }));
  CHECK_FALSE(takes([](PlanKey& k) { k.family.head_dim = 64; }));
  CHECK_FALSE(takes([](PlanKey& k) { k.family.mask = problem::Extent::kPerPair; }));
  CHECK_FALSE(takes([](PlanKey& k) { k.family.bounded_right = true; }));
  CHECK_FALSE(takes([](PlanKey& k) { k.family.gqa_ratio = 2; }));
  CHECK_FALSE(takes([](PlanKey& k) { k.family.row_max = true; }));
  CHECK_FALSE(takes([](PlanKey& k) { k.family.keep = expr::Ref::parse("keep j <= i"); }));
}

TEST_CASE("short queries of a kv head take pack_gqa, unless their heads need masks of their own") {
  const codegen::Arch& arch = codegen::find_arch("sm_90a");
  PlanKey k = key(128, 128, 1);
  k.family.gqa_ratio = 4;
  CHECK(config_zero(k, arch).pack_gqa);
  k.bucket_q = 16;
  CHECK(config_zero(k, arch).pack_gqa);
  k.bucket_q = 64;
  CHECK(config_zero(k, arch).pack_gqa);
  CHECK_FALSE(config_zero(k, codegen::find_arch("sm_80")).pack_gqa);
  k.bucket_q = 128;
  CHECK_FALSE(config_zero(k, arch).pack_gqa);
  k.bucket_q = 1;
  k.family.mask = Extent::kPerKey;
  CHECK(config_zero(k, arch).pack_gqa);
  k.family.mask_per_query_head = true;
  CHECK_FALSE(config_zero(k, arch).pack_gqa);
  k.family.mask_per_query_head = false;
  k.family.mask = Extent::kPerPair;
  CHECK(config_zero(k, arch).pack_gqa);
  k.family.gqa_ratio = 3;  // a mask tile cannot hold a third of a query
  CHECK_FALSE(config_zero(k, arch).pack_gqa);
  k.family.mask = Extent::kAbsent;
  CHECK(config_zero(k, arch).pack_gqa);
  k.family.gqa_ratio = 1;
  CHECK_FALSE(config_zero(k, arch).pack_gqa);
}

TEST_CASE("on Hopper heads of pack_gqa take wgmma where they fill its tiles with whole queries") {
  const codegen::Arch& arch = codegen::find_arch("sm_90a");
  const auto tile = [&](const PlanKey& k) { return codegen::describe_tile(config_zero(k, arch)); };
  CHECK(tile(key(128, 128, 1)) == "q16 pack_gqa kv32 s3 w1 b4 max_free");
  CHECK(tile(key(128, 128, 16)) == "wgmma q64 pack_gqa kv64 s2");
  CHECK(tile(key(128, 128, 64)) == "wgmma q128 pack_gqa kv128 s2");
  CHECK(tile(key(128, 128, 128)) == "wgmma q128 kv128 s2");
  CHECK(tile(key(256, 256, 16)) == "q64 pack_gqa kv64 s1 w4 b2 max_free");
  PlanKey paged = key(128, 128, 128);
  paged.family.page_size = 32;
  CHECK(tile(paged) == "wgmma q128 kv128 s2");
  paged.family.page_size = 16;
  CHECK(tile(paged) == "wgmma q128 kv128 s2");
  paged.family.page_size = 96;
  CHECK(tile(paged) == "wgmma q128 kv96 s2");
  PlanKey drafts = key(128, 128, 16);
  drafts.family.tail_mask = true;
  CHECK(tile(drafts) == "wgmma q64 pack_gqa kv32 s2");
  drafts.bucket_q = 128;
  CHECK(tile(drafts) == "wgmma q128 kv64 s2");
  PlanKey k = key(128, 128, 16);
  k.family.gqa_ratio = 8;
  CHECK(tile(k) == "wgmma q128 pack_gqa kv128 s2");
  k.family.gqa_ratio = 7;  // no tile of wgmma holds whole queries
  CHECK(tile(k) == "q128 pack_gqa kv32 s2 w4 b2 max_free");
  k.bucket_q = 64;
  CHECK(tile(k) == "wgmma q64 kv128 s2");
  k.family.gqa_ratio = 1;
  CHECK(tile(k) == "wgmma q64 kv128 s2");
  k.family.gqa_ratio = 4;
  k.family.mask = Extent::kPerPair;
  CHECK(tile(k) == "wgmma q128 pack_gqa kv128 s2");
  k.family.mask_per_query_head = true;
  CHECK(tile(k) == "q64 kv64 s1 w4 b2 max_free");
}

TEST_CASE("on Hopper tiles do not cross the blocks by which a keep expression reads") {
  const codegen::Arch& arch = codegen::find_arch("sm_90a");
  const auto tile = [&](int head_dim, int gqa_ratio, const char* keep,
                        Extent bias = Extent::kAbsent) {
    PlanKey k = key(head_dim, head_dim, 32768);
    k.family.gqa_ratio = gqa_ratio;
    k.family.keep = expr::Ref::parse(keep);
    k.family.bias = bias;
    const codegen::ForwardTunables config = config_zero(k, arch);
    CHECK(codegen::why_unfit(config, k.family, arch).value_or("") == "");
    const tuner::SearchSpace space;
    for (const codegen::ForwardTunables& candidate : space.candidates(k, arch)) {
      CHECK(candidate.block_q <= std::max(64, config.block_q));
      CHECK(candidate.block_kv <= config.block_kv);
    }
    return codegen::describe_tile(config);
  };
  CHECK(tile(128, 1, "keep i0[b, h, i // 64, j // 64] > 0; int32") == "wgmma q64 kv64 s2");
  CHECK(tile(128, 1, "keep i0[b, h, i // 128, j // 64] > 0; int32") == "wgmma q128 kv64 s3");
  CHECK(tile(64, 1, "keep i0[b, h, i // 64, j // 128] > 0; int32") == "wgmma q64 kv128 s2");
  CHECK(tile(64, 1, "keep i0[b, h, i // 128, j // 128] > 0; int32") == "wgmma q128 kv128 s2");
  // Heads that share a kv head's blocks fill a tile of 128 rows together; others do not.
  CHECK(tile(128, 8, "keep i0[b, g, i // 64, j // 64] > 0; int32") ==
        "wgmma q128 pack_gqa kv64 s2");
  CHECK(tile(128, 8, "keep i0[b, h, i // 64, j // 64] > 0; int32") == "wgmma q64 kv64 s2");
  CHECK(tile(128, 8, "keep i0[b, g, i // 64, j // 64] > 0; int32", Extent::kPerPair) ==
        "wgmma q64 kv64 s2");
}

TEST_CASE("configuration 0 belongs to the family's problems") {
  for (const int ratio : {1, 2, 3, 8, 32, 71}) {
    for (const Extent mask :
         {Extent::kAbsent, Extent::kPerQuery, Extent::kPerKey, Extent::kPerPair}) {
      for (const bool per_head : {false, true}) {
        for (const int bucket : kBuckets) {
          PlanKey k = key(64, 64, bucket);
          k.family.gqa_ratio = ratio;
          k.family.mask = mask;
          k.family.mask_per_query_head = per_head && ratio > 1;
          const codegen::Arch& arch = codegen::find_arch("sm_80");
          const auto config = config_zero(k, arch);
          CAPTURE(ratio);
          CAPTURE(bucket);
          CHECK_FALSE(codegen::why_unfit(config, k.family, arch).has_value());
        }
      }
    }
  }
}
