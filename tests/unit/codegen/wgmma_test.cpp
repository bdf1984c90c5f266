// The rules of the Hopper forward.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "codegen/kernels/rows.hpp"

using namespace attnjit;

namespace codegen_wgmma_test {
using attnjit::codegen::ForwardTunables;
using attnjit::codegen::Path;
using attnjit::kernel::ForwardWgmmaConfig;

namespace {

constexpr problem::Family kFamily{.head_dim = 128, .head_dim_v = 128, .aligned = true};
constexpr ForwardTunables kTunables{
    .path = Path::kWgmma, .block_q = 128, .block_kv = 128, .num_stages = 2};

std::string unfit(const ForwardTunables& tunables, const problem::Family& family = kFamily,
                  const char* arch = "sm_90a") {
  return codegen::why_unfit(tunables, family, codegen::find_arch(arch)).value_or("");
}

}  // namespace

TEST_CASE("wgmma is for sm_90a, and for tensors that the copy engine can address") {
  CHECK(unfit(kTunables) == "");
  CHECK(unfit(kTunables, kFamily, "sm_80") == "path: wgmma does not exist on sm_80; use mma");
  CHECK(unfit(kTunables, kFamily, "sm_100") == "path: wgmma does not exist on sm_100; use mma");
  problem::Family odd = kFamily;
  odd.aligned = false;
  CHECK(
      unfit(kTunables, odd).starts_with("path: wgmma needs addresses and strides of q, k, v and "));
  odd = kFamily;
  odd.bias = problem::Extent::kPerPair;
  odd.bias_vectorized = true;
  CHECK(unfit(kTunables, odd) == "");
  odd.bias_dtype = DType::kFloat32;
  CHECK(unfit(kTunables, odd) == "");
  odd.bias_vectorized = false;
  CHECK(unfit(kTunables, odd) == "");
}

TEST_CASE("each rule of a wgmma tile, broken once") {
  const std::pair<void (*)(ForwardTunables&), std::string> cases[] = {
      {[](auto& t) { t.pack_gqa = true; }, "pack_gqa needs a gqa_ratio above 1"},
      {[](auto& t) { t.num_warps = 4; }, "num_warps: path wgmma has no such member"},
      {[](auto& t) { t.min_blocks = 2; }, "min_blocks: path wgmma has no such member"},
      {[](auto& t) { t.softmax = kernel::SoftmaxPolicy::kRunningMax; },
       "softmax: path wgmma has no such member"},
      {[](auto& t) { t.block_q = 96; }, "block_q must be 64, 128 or 192"},
      {[](auto& t) { t.block_q = 256; }, "block_q must be 64, 128 or 192"},
      {[](auto& t) { t.block_kv = 48; }, "block_kv must be a multiple of 32 keys up to 256"},
      {[](auto& t) { t.num_stages = 1; }, "num_stages must be 2 to 4"},
      {[](auto& t) { t.block_kv = 192; },
       "block_kv and head_dim_v need more registers than a thread has"}};
  for (const auto& [change, expected] : cases) {
    ForwardTunables tunables = kTunables;
    change(tunables);
    CHECK(unfit(tunables) == expected);
  }
  ForwardTunables deep = kTunables;
  deep.num_stages = 4;
  CHECK(unfit(deep).starts_with("needs 297"));
}

TEST_CASE("tiles of wgmma are parts of a page or whole pages") {
  problem::Family paged = kFamily;
  for (const int page_size : {1, 8, 24, 48, 80}) {
    paged.page_size = page_size;
    CHECK(unfit(kTunables, paged) == "path: wgmma needs page_size 16 or a multiple of 32; use mma");
  }
  const int block_kv = kTunables.block_kv;
  for (const int page_size : {16, 32, 64, 128, 256}) {
    paged.page_size = page_size;
    CHECK(unfit(kTunables, paged) == "");
    CHECK(codegen::forward_wgmma_config(paged, kTunables).page_kv == std::min(page_size, block_kv));
  }
  paged.page_size = 3 * block_kv;
  CHECK(unfit(kTunables, paged) == "");
  paged.page_size = block_kv + 32;
  CHECK(unfit(kTunables, paged) ==
        fmt::format("block_kv must divide or be a multiple of page_size {} with path wgmma",
                    block_kv + 32));
}

TEST_CASE("heads of pack_gqa fill whole queries of a tile, and leave from registers") {
  problem::Family grouped = kFamily;
  grouped.gqa_ratio = 4;
  ForwardTunables packed = kTunables;
  packed.pack_gqa = true;
  CHECK(unfit(packed, grouped) == "");
  const ForwardWgmmaConfig config = codegen::forward_wgmma_config(grouped, packed);
  CHECK(config.pack_gqa_heads() == 4);
  CHECK(config.scores().pack_gqa_heads == 4);
  CHECK_FALSE(config.stages_out());
  grouped.gqa_ratio = 3;
  CHECK(unfit(packed, grouped) == "gqa_ratio must divide 64 with pack_gqa");
  grouped.gqa_ratio = 4;
  grouped.mask_per_query_head = true;
  CHECK(unfit(packed, grouped) == "pack_gqa is true; the heads of a kv head must share the mask");
}

TEST_CASE(
    "output is staged where two buffers of Q have room, and a third one serves where it has") {
  const auto config = [](int head_dim, int block_kv) {
    problem::Family family = kFamily;
    family.head_dim = family.head_dim_v = head_dim;
    ForwardTunables tunables = kTunables;
    tunables.block_kv = block_kv;
    return codegen::forward_wgmma_config(family, tunables);
  };
  constexpr int kRest = ForwardWgmmaConfig::kOnesBytes + ForwardWgmmaConfig::kControlBytes;
  CHECK(config(64, 128).q_buffers() == 3);
  CHECK(config(128, 128).q_buffers() == 3);
  CHECK(config(128, 128).shared_bytes() == 224 * 1024 + kRest);
  ForwardWgmmaConfig with_maxima = config(128, 128);  // which take the rest of the memory
  with_maxima.row_max = true;
  CHECK(with_maxima.q_buffers() == 2);
  CHECK(with_maxima.stages_out());
  CHECK(with_maxima.q_buffer_rows() == 128);
}

TEST_CASE("Q is a ring of as many parts as have room, up to two buffers, where O is not staged") {
  const auto config = [](int head_dim, int head_dim_v, int block_kv) {
    problem::Family family = kFamily;
    family.head_dim = head_dim;
    family.head_dim_v = head_dim_v;
    ForwardTunables tunables = kTunables;
    tunables.block_kv = block_kv;
    return codegen::forward_wgmma_config(family, tunables);
  };
  ForwardWgmmaConfig wide = config(256, 256, 64);
  CHECK_FALSE(wide.stages_out());
  CHECK(wide.q_buffer_rows() == 64);
  CHECK(wide.q_buffers() == 3);
  CHECK(wide.shared_bytes() ==
        224 * 1024 + ForwardWgmmaConfig::kOnesBytes + ForwardWgmmaConfig::kControlBytes);
  wide.row_max = true;  // whose maxima leave no room for a third
  CHECK(wide.q_buffers() == 2);
  CHECK(config(192, 192, 96).q_buffers() == 3);
  for (const auto& [head_dim, parts] : {std::pair{192, 2}, {128, 4}}) {
    ForwardWgmmaConfig wide_out = config(head_dim, 256, 64);
    wide_out.num_stages = 3;
    CHECK_FALSE(wide_out.stages_out());
    CHECK(wide_out.q_buffers() == parts);
  }
}

TEST_CASE("registers of all warpgroups add up to what a launch gets") {
  ForwardWgmmaConfig config{.block_q = 128, .producer_registers = 40, .min_blocks = 1, .teams = 1};
  CHECK(config.consumer_registers() == 232);
  config.producer_registers = 24;
  CHECK(config.consumer_registers() == 240);
  config.block_q = 192;
  config.producer_registers = 32;
  CHECK(config.consumer_registers() == 160);
  config.block_q = 64;
  CHECK(config.consumer_registers() == 240);
  config.min_blocks = 2;
  CHECK(config.consumer_registers() == 224);
}

TEST_CASE("an SM has two thread blocks of small tiles that pack no heads") {
  const auto min_blocks = [](int head_dim, int block_q, int block_kv, bool pack_gqa) {
    problem::Family family = kFamily;
    family.head_dim = family.head_dim_v = head_dim;
    family.gqa_ratio = pack_gqa ? 4 : 1;
    ForwardTunables tunables = kTunables;
    tunables.block_q = block_q;
    tunables.block_kv = block_kv;
    tunables.pack_gqa = pack_gqa;
    CHECK(unfit(tunables, family) == "");
    const ForwardWgmmaConfig config = codegen::forward_wgmma_config(family, tunables);
    CHECK(2 * (config.shared_bytes() + 1024) <= (config.min_blocks == 2 ? 228 : 2 * 228) * 1024);
    return config.min_blocks;
  };
  CHECK(min_blocks(64, 64, 64, false) == 2);
  CHECK(min_blocks(128, 64, 32, false) == 2);
  CHECK(min_blocks(64, 64, 64, true) == 1);
  CHECK(min_blocks(64, 128, 64, false) == 1);
  CHECK(min_blocks(64, 64, 128, false) == 1);  // registers
  CHECK(min_blocks(128, 64, 64, false) == 1);  // registers
  CHECK(min_blocks(256, 64, 32, false) == 1);  // memory
}

TEST_CASE("a thread block has two teams where rows keep lists of blocks and V has no unread keys") {
  const auto teams = [](const char* keep, int block_q = 64, int block_kv = 64, int head_dim = 128) {
    CAPTURE(keep);
    problem::Family family = kFamily;
    family.head_dim = family.head_dim_v = head_dim;
    family.keep = expr::Ref::parse(keep);
    ForwardTunables tunables = kTunables;
    tunables.block_q = block_q;
    tunables.block_kv = block_kv;
    CHECK(unfit(tunables, family) == "");
    const ForwardWgmmaConfig config = codegen::forward_wgmma_config(family, tunables);
    CHECK(config.shared_bytes() <= 227 * 1024);
    CHECK(config.plans_work);
    CHECK(config.num_threads() == 128 * (1 + config.teams * block_q / 64));
    return config.teams;
  };
  constexpr const char* kLists = "keep i0[b, h, i // 64, j // 64] == 0; int32";
  CHECK(teams(kLists) == 2);
  CHECK(teams(kLists, 128) == 1);         // two warpgroups have its rows
  CHECK(teams(kLists, 64, 128) == 1);     // memory
  CHECK(teams(kLists, 64, 64, 64) == 1);  // two thread blocks per SM
  CHECK(teams("keep i0[b, h, i // 64, j // 64] == 0 && j <= i; int32") == 1);
  CHECK(teams("keep i0[b, h, i // 64, j // 64] == 0 && i1[b, j] > 0; int32, int32") == 1);
  CHECK(teams("keep i0[b, i] == i0[b, j]; int32") == 1);
}

}  // namespace codegen_wgmma_test
