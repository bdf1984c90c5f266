#include <doctest/doctest.h>

#include <utility>
#include <vector>

#include "codegen/config_json.hpp"
#include "codegen/render.hpp"
#include "tuner/config_zero.hpp"

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
  for (const codegen::Arch& arch : codegen::archs()) {
    for (int head_dim = 1; head_dim <= 256; ++head_dim) {
      for (const int head_dim_v : {1, 8, 33, 64, 65, 128, 129, 192, 256, head_dim}) {
        for (const int bucket : kBuckets) {
          const auto config = config_zero(key(head_dim, head_dim_v, bucket), arch);
          const auto rule = codegen::why_invalid(config, arch);
          if (!rule) continue;  // half a million assertions would take their time
          CHECK_MESSAGE(!rule, arch.name, " d", head_dim, " dv", head_dim_v, " q", bucket, ": ",
                        *rule);
        }
      }
    }
  }
}

TEST_CASE("configuration 0 is specialised for the family, and only its tile is chosen") {
  std::vector<Family> families(6);
  for (Family& f : families) f = key(128, 64, 128).family;
  families[1].dtype = DType::kFloat16;
  families[2].positive_scale = false;
  families[3].bias = Extent::kPerPair;
  families[4].aligned = false;
  families[5].gqa_ratio = 1;
  for (const Family& f : families) {
    const auto config = config_zero({f, 128, 1024}, codegen::find_arch("sm_90a"));
    auto expected = codegen::specialise(f);
    expected.block_q = config.block_q;
    expected.block_kv = config.block_kv;
    expected.num_stages = config.num_stages;
    expected.num_warps = config.num_warps;
    expected.min_blocks = config.min_blocks;
    CAPTURE(problem::describe(f));
    CHECK(codegen::to_json(config) == codegen::to_json(expected));
  }
}

TEST_CASE("few rows get no tile that is mostly padding") {
  for (const codegen::Arch& arch : codegen::archs()) {
    for (const int head_dim : {8, 64, 80, 128, 192, 256}) {
      for (const int bucket : {1, 16, 64}) {
        CHECK(config_zero(key(head_dim, head_dim, bucket), arch).block_q <= 64);
      }
    }
  }
}

TEST_CASE("the prepass has the tile of the kernel that reads its result") {
  Family f = key(128, 128, 128).family;
  const auto config = config_zero({f, 128, 1024}, codegen::find_arch("sm_80"));
  for (const auto& [extent, vectorized] :
       {std::pair{Extent::kPerKey, true}, {Extent::kPerPair, false}}) {
    f.mask = extent;
    f.mask_vectorized = vectorized;
    const kernel::MaskPackConfig pack = tuner::mask_pack_config(f, config);
    CHECK(kernel::why_invalid(pack) == nullptr);
    CHECK(pack.per_pair == (extent == Extent::kPerPair));
    CHECK(pack.vectorized == vectorized);
    CHECK(pack.block_q == config.block_q);
    CHECK(pack.block_kv == config.block_kv);
  }
}
