// The rules of the Hopper backward.
#include <doctest/doctest.h>

#include <string>
#include <utility>

#include "codegen/kernels/rows.hpp"

using namespace attnjit;

namespace codegen_wgmma_backward_test {
using attnjit::codegen::BackwardTunables;
using attnjit::codegen::Path;
using attnjit::problem::BackwardFamily;

namespace {

constexpr BackwardFamily kFamily{.scores = {.head_dim = 128, .head_dim_v = 128, .aligned = true}};
constexpr BackwardTunables kTunables{
    .dkv = {.path = Path::kWgmma, .block_q = 64, .block_kv = 128, .num_stages = 2}};

std::string unfit(const BackwardTunables& tunables, const BackwardFamily& family = kFamily,
                  const char* arch = "sm_90a") {
  return codegen::why_unfit(tunables, family, codegen::find_arch(arch)).value_or("");
}

}  // namespace

TEST_CASE("a mask over pairs suits wgmma, whatever its memory, and a bias beside it") {
  BackwardFamily family = kFamily;
  family.scores.mask = family.scores.bias = problem::Extent::kPerPair;
  family.scores.bias_vectorized = true;
  CHECK(unfit(kTunables, family) == "");
}

TEST_CASE("each rule that keeps a backward from wgmma, broken once") {
  CHECK(unfit(kTunables) == "");
  CHECK(unfit(kTunables, kFamily, "sm_80") == "dkv: path: wgmma does not exist on sm_80; use mma");
  const std::pair<void (*)(problem::Family&), std::string> cases[] = {
      {[](auto& f) { f.aligned = false; },
       "wgmma needs addresses and strides of all tensors to be multiples of 16 bytes"},
      {[](auto& f) { f.bias = problem::Extent::kPerPair; },
       "wgmma is not faster than mma with head_dim 128 and a bias that has dtype fp32 or rows that "
       "are not multiples of 16 bytes"}};
  for (const auto& [change, expected] : cases) {
    BackwardFamily family = kFamily;
    change(family.scores);
    CHECK(unfit(kTunables, family) == "dkv: path: " + expected + "; use mma");
  }
  BackwardFamily family = kFamily;
  family.scores.mask = problem::Extent::kPerQuery;  // its rows are dead
  CHECK(unfit(kTunables, family) == "");
  family.scores.positive_scale = false;
  CHECK(unfit(kTunables, family) == "");
  family.scores.bias = problem::Extent::kPerQuery;  // taken off lse
  CHECK(unfit(kTunables, family) == "");
  family.scores.bias = family.scores.mask = problem::Extent::kPerKey;
  family.scores.bias_dtype = DType::kFloat32;
  CHECK(unfit(kTunables, family) == "");
  family.scores.mask = problem::Extent::kAbsent;
  family.scores.bias = family.dbias = problem::Extent::kPerPair;
  family.scores.bias_dtype = family.scores.dtype;
  family.scores.bias_vectorized = true;
  family.dbias_dtype = DType::kFloat32;
  const auto reason = [&] { return codegen::why_no_wgmma(family, codegen::find_arch("sm_90a")); };
  CHECK(reason() == std::nullopt);
  family.dbias_reduces_planes = true;
  family.dbias_dtype = DType::kFloat32;
  family.dbias_vectorized = false;
  CHECK(reason() == std::nullopt);
  family.deterministic = true;
  CHECK(reason() == std::nullopt);
  family.scores.packed = true;
  CHECK(reason() == std::nullopt);
  CHECK(codegen::separates_dq(family));
  family.deterministic = family.dbias_reduces_planes = false;
  CHECK(reason() == std::nullopt);  // packed, tiles of dbias are added up
  CHECK_FALSE(codegen::separates_dq(family));
}

TEST_CASE("what a softcap keeps from wgmma") {
  BackwardFamily family = kFamily;
  const auto reason = [&] { return codegen::why_no_wgmma(family, codegen::find_arch("sm_90a")); };
  family.scores.softcap = family.scores.alibi = true;
  family.scores.bias_dtype = family.scores.dtype;
  family.scores.bias_vectorized = family.dbias_vectorized = true;
  for (const int head_dim : {64, 128, 256}) {
    family.scores.head_dim = head_dim;
    family.scores.bias = problem::Extent::kPerPair;
    family.dbias = problem::Extent::kAbsent;
    CHECK(reason() == std::nullopt);
    family.dbias = problem::Extent::kPerPair;
    CHECK(reason() == "wgmma does not support a dbias per query and key together with a softcap");
    family.scores.bias = family.dbias = problem::Extent::kPerKey;
    CHECK((reason() == std::nullopt) == (head_dim <= 128));
  }
}

TEST_CASE("each rule of a wgmma tile of a backward, broken once") {
  const std::pair<void (*)(BackwardTunables&), std::string> cases[] = {
      {[](auto& t) { t.dq_method = codegen::DqMethod::kKernel; },
       "dq_method must be add, first_stores or own_kv_head where dkv has path wgmma"},
      {[](auto& t) {
         t.dq_method = codegen::DqMethod::kOwnKvHead;
         t.split = true;
       },
       "split must be false where dq_method is own_kv_head"},
      {[](auto& t) { t.dkv.block_kv = 64; }, "dkv: block_kv must be 128 with path wgmma"},
      {[](auto& t) { t.dkv.num_warps = 12; }, "dkv: num_warps: path wgmma has no such member"},
      {[](auto& t) { t.dkv.late = true; }, "dkv: late: path wgmma has no such member"},
      {[](auto& t) { t.dkv.block_q = 32; }, "dkv: block_q must be 64 or 128"},
      {[](auto& t) { t.dkv.num_stages = 1; }, "dkv: num_stages must be 2 or 3"},
      {[](auto& t) { t.dkv.block_q = 128; },
       "dkv: block_q, head_dim and head_dim_v need more registers than a thread has"}};
  for (const auto& [change, expected] : cases) {
    BackwardTunables tunables = kTunables;
    change(tunables);
    CHECK(unfit(tunables) == expected);
  }
  BackwardTunables planes = kTunables;
  planes.dq_method = codegen::DqMethod::kOwnKvHead;
  BackwardFamily packed = kFamily;
  packed.scores.packed = true;
  CHECK(unfit(kTunables, packed) == "");
  CHECK(unfit(planes, packed) == "dq_method: own_kv_head does not support cu_seqlens; use add");
  BackwardTunables stores = kTunables;
  stores.dq_method = codegen::DqMethod::kFirstStores;
  CHECK(unfit(stores) == "");
  CHECK(unfit(stores, packed) == "dq_method: first_stores does not support cu_seqlens; use add");
  BackwardFamily masked = kFamily;
  masked.scores.mask = problem::Extent::kPerQuery;
  CHECK(unfit(stores, masked) == "");
  masked.scores.mask = problem::Extent::kPerKey;
  CHECK(unfit(stores, masked) ==
        "dq_method: first_stores does not support a mask over keys; use add");
  BackwardFamily deterministic = kFamily;
  deterministic.deterministic = true;
  stores.split = false;
  CHECK(unfit(stores, deterministic) == "dq_method: first_stores is not deterministic; use add");
  stores.dkv.path = codegen::Path::kMma;
  CHECK(unfit(stores) == "dq_method: first_stores needs path wgmma; use add or kernel");
}

TEST_CASE("each rule of the wgmma tiles of wide heads, broken once") {
  BackwardTunables wide = kTunables;
  wide.dq_method = codegen::DqMethod::kKernel;
  wide.dkv.block_kv = 64;
  wide.dq = wide.dkv;
  wide.dq.block_q = 128;
  BackwardFamily family = kFamily;
  family.scores.head_dim = 136;
  family.scores.positive_scale = false;
  CHECK(unfit(wide, family) == "");
  std::swap(family.scores.head_dim, family.scores.head_dim_v);
  CHECK(unfit(wide, family) == "");
  const std::pair<void (*)(BackwardTunables&), std::string> cases[] = {
      {[](auto& t) { t.dq_method = codegen::DqMethod::kAdd; },
       "dq_method must be kernel where dkv has path wgmma and block_kv 64"},
      {[](auto& t) { t.dkv.block_q = 128; },
       "dkv: block_q must be 64 with path wgmma and block_kv 64"},
      {[](auto& t) { t.dkv.block_kv = 128; }, "dkv: block_kv must be 64 with path wgmma"},
      {[](auto& t) { t.dkv.num_stages = 1; }, "dkv: num_stages must be 2 or 3"},
      {[](auto& t) { t.dq.block_q = 64; }, "dq: block_q must be 128 with path wgmma"},
      {[](auto& t) { t.dq.num_warps = 16; }, "dq: num_warps: path wgmma has no such member"},
      {[](auto& t) { t.dq.late = true; }, "dq: late: path wgmma has no such member"},
      {[](auto& t) { t.dq.num_stages = 3; }, "dq: num_stages must be 1 or 2"}};
  for (const auto& [change, expected] : cases) {
    BackwardTunables tunables = wide;
    change(tunables);
    CHECK(unfit(tunables, family) == expected);
  }
  // A kernel of dk and dv that is fit for it.
  wide.dkv = {.block_q = 32,
              .block_kv = 64,
              .num_stages = 1,
              .num_warps = 8,
              .query_warps = 2,
              .min_blocks = 1};
  CHECK(unfit(wide, family, "sm_80").find("dq: path: wgmma does not exist on sm_80; use mma") !=
        std::string::npos);
  wide.dkv = kTunables.dkv;
  wide.dkv.block_kv = 64;
  family.dbias = problem::Extent::kPerPair;
  family.dbias_vectorized = true;
  family.scores.bias = problem::Extent::kPerPair;
  family.scores.bias_vectorized = true;
  wide.dbias_method = codegen::DbiasMethod::kStore;
  CHECK(unfit(wide, family) ==
        "dkv: path: wgmma does not support a dbias per query and key with head_dim above 128; use "
        "mma");
}

TEST_CASE("a bias that is read element by element takes no shared memory on wgmma") {
  BackwardFamily family = kFamily;
  family.scores.bias = problem::Extent::kPerPair;
  family.scores.bias_dtype = family.scores.dtype;
  family.scores.bias_vectorized = true;
  CHECK(codegen::dkv_wgmma_config(family, kTunables).bias_bytes() > 0);
  family.scores.bias_vectorized = false;
  CHECK(unfit(kTunables, family).find("not faster than mma") != std::string::npos);
  family.scores.head_dim = family.scores.head_dim_v = 96;
  CHECK(unfit(kTunables, family) == "");
  CHECK(codegen::dkv_wgmma_config(family, kTunables).bias_bytes() == 0);
  family.scores.bias_vectorized = true;
  family.scores.bias_dtype = DType::kFloat32;
  CHECK(unfit(kTunables, family) == "");
  CHECK(codegen::dkv_wgmma_config(family, kTunables).bias_bytes() == 0);
}

TEST_CASE("a dbias of all axes is stored by wgmma, or kept apart where it cannot be") {
  BackwardFamily family = kFamily;
  family.scores.bias = family.dbias = problem::Extent::kPerPair;
  family.scores.bias_dtype = family.dbias_dtype = family.scores.dtype;
  family.scores.bias_vectorized = family.dbias_vectorized = true;
  BackwardTunables tunables = kTunables;
  tunables.dbias_method = codegen::DbiasMethod::kStore;
  CHECK(unfit(tunables, family) == "");
  family.dbias_dtype = DType::kFloat32;
  CHECK(unfit(tunables, family) ==
        "dbias_method: store does not support a dbias of another dtype than q with path wgmma; use "
        "per_plane");
  family.dbias_dtype = family.scores.dtype;
  family.dbias_vectorized = false;
  CHECK(unfit(tunables, family) ==
        "dbias_method: store needs rows of dbias to be multiples of 16 bytes with path wgmma; "
        "use per_plane");
  tunables.dbias_method = codegen::DbiasMethod::kPerPlane;
  CHECK(unfit(tunables, family) == "");
  tunables.dkv = {.path = Path::kMma};
  CHECK(unfit(tunables, family) == "dbias_method: per_plane needs path wgmma; use store");
}

TEST_CASE("parts of dbias are for few planes on wgmma, whatever its type") {
  BackwardFamily family = kFamily;
  family.scores.bias = family.dbias = problem::Extent::kPerPair;
  family.scores.bias_dtype = family.scores.dtype;
  family.scores.bias_vectorized = true;
  family.dbias_dtype = DType::kFloat32;
  family.dbias_reduces_planes = true;
  BackwardTunables tunables = kTunables;
  tunables.dbias_method = codegen::DbiasMethod::kPerPlane;
  tunables.split = false;
  CHECK(unfit(tunables, family) ==
        "dbias_method: per_plane does not support a dbias that sums more than four planes; use add "
        "or "
        "kernel");
  family.dbias_reduces_few = true;
  CHECK(unfit(tunables, family) == "");
  family.deterministic = true;
  CHECK(unfit(tunables, family) == "");
  tunables.dq_method = codegen::DqMethod::kOwnKvHead;
  CHECK(unfit(tunables, family).find("own_kv_head does not support a dbias") != std::string::npos);
  tunables.dq_method = codegen::DqMethod::kAdd;
  family.scores.softcap = true;
  CHECK(
      unfit(tunables, family) ==
      "dbias_method: wgmma does not support a dbias per query and key together with a softcap; use "
      "add or kernel");
  family.scores.softcap = false;
  family.scores.head_dim = 256;
  CHECK(
      unfit(tunables, family) ==
      "dbias_method: wgmma does not support a dbias per query and key with head_dim above 128; use "
      "add or kernel");
  family.scores.head_dim = 128;
  tunables.dkv = {.path = Path::kMma};
  CHECK(unfit(tunables, family) == "dbias_method: per_plane needs path wgmma; use add or kernel");

  const auto sum = codegen::bias_sum_config(family, codegen::DbiasMethod::kPerPlane);
  REQUIRE(sum);
  CHECK(sum->partials == kernel::DType::kBFloat16);
  CHECK(sum->dtype == kernel::DType::kFloat32);
}

TEST_CASE("V has one buffer in the kernel of dq where two do not fit") {
  BackwardTunables tunables = kTunables;
  tunables.dq.num_stages = 2;
  BackwardFamily family = kFamily;
  for (const auto& [head_dim, v_stages] : {std::pair{192, 2}, {256, 1}}) {
    family.scores.head_dim = family.scores.head_dim_v = head_dim;
    const kernel::DqWgmmaConfig config = codegen::dq_wgmma_config(family, tunables);
    CHECK(config.v_stages == v_stages);
    CHECK(config.shared_bytes() <= config.kMaxSharedBytes);
    CHECK(config.producer_registers + 2 * config.product_registers() <= 504);
  }
}

TEST_CASE("warpgroups pass tiles by themselves where blocks have 64 keys and no order is kept") {
  const auto parts = [](const char* keep, auto change) {
    BackwardFamily family = kFamily;
    family.scores.keep = expr::Ref::parse(keep);
    BackwardTunables tunables = kTunables;
    change(family, tunables);
    CHECK(unfit(tunables, family) == "");
    const kernel::DkvWgmmaConfig config = codegen::dkv_wgmma_config(family, tunables);
    CHECK(config.num_slots() == 3 - config.key_parts);
    CHECK(codegen::facts(config).splits_last == (config.key_parts == 2));
    return config.key_parts;
  };
  constexpr const char* kLists = "keep i0[b, h, i // 64, j // 64] == 0; int32";
  const auto as_is = [](auto&, auto&) {};
  CHECK(parts(kLists, as_is) == 2);
  CHECK(parts(kLists, [](auto&, auto& t) { t.dkv.num_stages = 3; }) == 2);
  CHECK(parts("keep i0[b, h, i // 128, j // 192] == 0; int32", as_is) == 2);
  CHECK(parts("keep i0[b, h, i // 64, j // 128] == 0; int32", as_is) == 1);
  CHECK(parts("keep i0[b, h, i // 64, j // 32] == 0; int32", as_is) == 1);
  CHECK(parts("keep i0[b, i] == i0[b, j]; int32", as_is) == 1);
  CHECK(parts("keep b0[i // 64, j // 64] && j <= i || b1[i // 64, j // 64]; bool, bool", as_is) ==
        1);
  CHECK(parts(kLists, [](auto& f, auto& t) { f.deterministic = true, t.split = false; }) == 1);
  CHECK(parts(kLists, [](auto&, auto& t) { t.dq_method = codegen::DqMethod::kFirstStores; }) == 1);
}

TEST_CASE("registers of the four warpgroups of a backward are those of a launch") {
  for (const int head_dim : {64, 128}) {
    BackwardFamily family = kFamily;
    family.scores.head_dim = family.scores.head_dim_v = head_dim;
    BackwardTunables tunables = kTunables;
    tunables.dkv.block_q = head_dim == 64 ? 128 : 64;
    CHECK(unfit(tunables, family) == "");
    const kernel::DkvWgmmaConfig config = codegen::dkv_wgmma_config(family, tunables);
    CHECK(config.producer_registers + config.dq_registers + 2 * config.key_registers() == 512);
    CHECK(config.shared_bytes() <= config.kMaxSharedBytes);
  }
}

}  // namespace codegen_wgmma_backward_test
