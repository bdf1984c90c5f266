#include "codegen/kernel_configs.hpp"

#include <doctest/doctest.h>

#include <utility>

#include "codegen/mask_form.hpp"

using namespace attnjit;
using problem::Extent;

TEST_CASE("the prepass of a mask over keys follows from the mask alone") {
  problem::Family f;
  f.gqa_ratio = 8;
  CHECK_FALSE(codegen::mask_to_bits_config(f).has_value());
  f.mask = Extent::kPerQuery;
  CHECK_FALSE(codegen::mask_to_bits_config(f).has_value());
  for (const auto& [extent, vectorized] :
       {std::pair{Extent::kPerKey, true}, {Extent::kPerPair, false}}) {
    f.mask = extent;
    f.mask_vectorized = vectorized;
    const auto config = codegen::mask_to_bits_config(f);
    REQUIRE(config.has_value());
    CHECK(config->per_pair == (extent == Extent::kPerPair));
    CHECK(config->vectorized == vectorized);
    CHECK(config->num_threads() == (extent == Extent::kPerPair ? 256 : 32));
  }
}

TEST_CASE("the form in which a mask is read") {
  using codegen::MaskForm;
  problem::Family f;
  const auto expect = [&](MaskForm form, bool converts) {
    CHECK(codegen::mask_form(f) == form);
    CHECK(codegen::needs_mask_bits(f) == converts);
  };
  expect(MaskForm::kNone, false);
  f.mask = Extent::kPerQuery;
  expect(MaskForm::kNone, false);
  f.mask = Extent::kPerPair;
  expect(MaskForm::kBits, true);
  f.mask_prepared = true;
  expect(MaskForm::kBits, false);
  f = {.mask = Extent::kPerKey, .mask_few_rows = true};
  expect(MaskForm::kBytes, false);
  f = {.mask = Extent::kPerKey, .mask_packs_keys = true};
  expect(MaskForm::kPackedRow, false);
}

TEST_CASE("packed sequences are ordered for thread blocks that stay on their SMs") {
  problem::Family f;
  f.dtype = DType::kFloat16;
  f.head_dim = f.head_dim_v = 64;
  f.gqa_ratio = 4;
  codegen::ForwardTunables tunables{
      .path = codegen::Path::kWgmma, .pack_gqa = true, .block_q = 64, .block_kv = 64};
  const auto config = [&] {
    return codegen::packed_order_config(f, codegen::facts(codegen::forward_kernel(f, tunables)));
  };
  CHECK_FALSE(config().has_value());
  f.packed = true;
  const auto order = config();
  REQUIRE(order.has_value());
  CHECK(order->block_q == 64);
  CHECK(order->pack_gqa_heads == 4);
  CHECK_FALSE(order->paged_keys);
  f.page_size = 16;
  CHECK(config()->paged_keys);
  CHECK(kernel::why_invalid(*order) == nullptr);
  CHECK(kernel::why_invalid(kernel::PackedOrderConfig{64, 0, false}) != nullptr);
  CHECK(kernel::why_invalid(kernel::PackedOrderConfig{64, 3, false}) != nullptr);
  tunables.path = codegen::Path::kMma;
  CHECK_FALSE(config().has_value());
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
