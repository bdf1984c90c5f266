#include <doctest/doctest.h>

#include <utility>

#include "codegen/kernel_configs.hpp"

using namespace attnjit;
using problem::Extent;

namespace {

constexpr codegen::ForwardTunables kTunables{.block_q = 64, .block_kv = 32};

}  // namespace

TEST_CASE("the prepass has the tile of the kernel that reads its result") {
  problem::Family f;
  f.gqa_ratio = 8;
  CHECK_FALSE(codegen::mask_pack_config(f, kTunables).has_value());
  f.mask = Extent::kPerQuery;
  CHECK_FALSE(codegen::mask_pack_config(f, kTunables).has_value());
  for (const auto& [extent, vectorized] :
       {std::pair{Extent::kPerKey, true}, {Extent::kPerPair, false}}) {
    f.mask = extent;
    f.mask_vectorized = vectorized;
    const auto pack = codegen::mask_pack_config(f, kTunables);
    REQUIRE(pack.has_value());
    CHECK(kernel::why_invalid(*pack) == nullptr);
    CHECK(pack->per_pair == (extent == Extent::kPerPair));
    CHECK(pack->vectorized == vectorized);
    CHECK(pack->block_q == 64);
    CHECK(pack->block_kv == 32);
  }
}

TEST_CASE("a prepass for packed heads has the tile's queries, not its rows") {
  problem::Family f;
  f.gqa_ratio = 8;
  f.mask = Extent::kPerPair;
  codegen::ForwardTunables packed = kTunables;
  packed.pack_heads = true;
  CHECK(codegen::mask_pack_config(f, packed)->block_q == 8);
}

TEST_CASE("the combine step writes what the forward would have written") {
  problem::Family f;
  f.dtype = DType::kFloat16;
  f.head_dim = 64;
  f.head_dim_v = 40;
  const auto combine = codegen::forward_combine_config(f);
  CHECK(kernel::why_invalid(combine) == nullptr);
  CHECK(combine.dtype == kernel::DType::kFloat16);
  CHECK(combine.head_dim_v == 40);
  CHECK(combine.padded_head_dim_v() == 48);
}
