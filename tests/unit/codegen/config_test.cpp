#include <doctest/doctest.h>
#include <fmt/format.h>

#include <functional>
#include <limits>
#include <string>
#include <utility>

#include "attnjit/error.hpp"
#include "base/fields_json.hpp"
#include "codegen/arch.hpp"
#include "codegen/kernels/rows.hpp"

using namespace attnjit;

namespace codegen_config_test {
using codegen::ForwardTunables;
using kernel::ForwardMmaConfig;

namespace {

constexpr problem::Family kFamily{
    .head_dim = 128, .head_dim_v = 64, .gqa_ratio = 4, .aligned = true};
constexpr ForwardTunables kTunables{
    .block_q = 128, .block_kv = 64, .num_stages = 2, .num_warps = 8, .min_blocks = 1};
const ForwardMmaConfig kLegal = codegen::forward_mma_config(kFamily, kTunables);

ForwardTunables patched(const std::string& json) {
  return base::patched(kTunables,
                       base::parse_patch<ForwardTunables>(base::parse_json(json), "config"));
}

// The message with which `json` is refused as a patch; empty if it is taken.
std::string refusal(const std::string& json) {
  try {
    patched(json);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kInvalidEnvironment);
    return error.what();
  }
  return "";
}

std::string unfit(const ForwardTunables& tunables, const problem::Family& family = kFamily,
                  const char* arch = "sm_90a") {
  return codegen::why_unfit(tunables, family, codegen::find_arch(arch)).value_or("");
}

}  // namespace

TEST_CASE("tunables as JSON have their members in order") {
  CHECK(base::to_json_value(kTunables).dump() ==
        R"({"path":"mma","pack_gqa":false,"block_q":128,"block_kv":64,"num_stages":2,)"
        R"("num_warps":8,"min_blocks":1,"softmax":"max_free"})");
}

TEST_CASE("tunables survive the way to JSON and back, each member by itself") {
  ForwardTunables changed = kTunables;
  int next = 3;
  base::for_each_field(changed, [&](const char*, auto& field) {
    using Field = std::remove_reference_t<decltype(field)>;
    if constexpr (std::is_same_v<Field, int>) field = next++;
    if constexpr (std::is_same_v<Field, bool>) field = !field;
  });
  changed.softmax = kernel::SoftmaxPolicy::kRunningMax;
  CHECK(base::from_json_value<ForwardTunables>(base::to_json_value(changed), "config") == changed);
}

TEST_CASE("tunables of wgmma have no members of the other path") {
  ForwardTunables wgmma = patched(R"({"path": "wgmma"})");
  CHECK(wgmma.block_q == kTunables.block_q);
  CHECK(wgmma.num_warps == 0);
  CHECK(base::to_json_value(wgmma).dump() ==
        R"({"path":"wgmma","pack_gqa":false,"block_q":128,"block_kv":64,"num_stages":2})");
  CHECK(base::from_json_value<ForwardTunables>(base::to_json_value(wgmma), "config") == wgmma);
  CHECK(unfit(patched(R"({"path": "wgmma", "num_warps": 8})")) ==
        "num_warps: path wgmma has no such member");
  CHECK(refusal(R"({"pack_heads": true})") == "config: \"pack_heads\" is called pack_gqa now");
}

TEST_CASE("a patch sets what it names and leaves the rest") {
  CHECK(patched("{}") == kTunables);
  ForwardTunables config = patched(R"({"block_q": 64, "num_warps": 4})");
  CHECK(config.block_q == 64);
  CHECK(config.num_warps == 4);
  config.block_q = 128;
  config.num_warps = 8;
  CHECK(config == kTunables);
}

TEST_CASE("malformed patches are refused with what was expected") {
  const std::string integer = "expected an integer from -2147483648 to 2147483647";
  const std::pair<std::string, std::string> cases[] = {
      {"[64]", "config is [64]; expected an object"},
      {R"({"block_q": "64"})", "config: block_q is \"64\"; " + integer},
      {R"({"block_q": 64.5})", "config: block_q is 64.5; " + integer},
      {R"({"block_q": null})", "config: block_q is null; " + integer},
      {R"({"pack_gqa": 1})", "config: pack_gqa is 1; expected true or false"},
      {R"({"path": "tma"})", "config: path is \"tma\"; expected one of \"mma\", \"wgmma\""},
      {R"({"path": 1})", "config: path is 1; expected one of"},
      {R"({"tile": 3})", "config: unknown member \"tile\"; expected one of"},
      {R"({"block_q": 64, "tile": 3})", "config: unknown member \"tile\"; expected one of"},
      // Part of a name is not a name.
      {R"({"warps": 4})", "config: unknown member \"warps\"; expected one of"},
      {R"({"block_q, block_kv": 4})",
       "config: unknown member \"block_q, block_kv\"; expected one of path, pack_gqa, block_q"},
      {R"({"": 4})", "config: unknown member \"\"; expected"},
      // Members that follow from the family cannot be chosen.
      {R"({"head_dim": 64})", "config: unknown member \"head_dim\"; expected"},
      // 2^32 + 64 is not 64.
      {R"({"block_q": 4294967360})", "config: block_q is 4294967360; " + integer},
      {R"({"block_q": -9223372036854775744})", "config: block_q is -9223372036854775744; "}};
  for (const auto& [json, expected] : cases) {
    CAPTURE(json);
    const std::string message = refusal(json);
    CAPTURE(message);
    CHECK_MESSAGE(message.starts_with(expected), "expected: ", expected);
  }
}

TEST_CASE("each rule of a forward config, broken once") {
  REQUIRE(kernel::why_invalid(kLegal) == nullptr);
  const std::pair<void (*)(ForwardMmaConfig&), std::string> cases[] = {
      {[](auto& c) { c.dtype = kernel::DType::kFloat32; }, "dtype must be fp16 or bf16"},
      {[](auto& c) { c.head_dim = 0; }, "head_dim must be 1 to 256"},
      {[](auto& c) { c.head_dim = 257; }, "head_dim must be 1 to 256"},
      {[](auto& c) { c.head_dim_v = 0; }, "head_dim_v must be 1 to 256"},
      {[](auto& c) { c.head_dim_v = 257; }, "head_dim_v must be 1 to 256"},
      {[](auto& c) { c.gqa_ratio = 0; }, "gqa_ratio must be at least 1"},
      {[](auto& c) { c.head_dim = 100; }, "aligned needs head_dim and head_dim_v to be multiples"},
      {[](auto& c) { c.head_dim_v = 33; }, "aligned needs head_dim and head_dim_v to be multiples"},
      {[](auto& c) { c.num_warps = 0; }, "num_warps must be 1 to 16"},
      {[](auto& c) { c.num_warps = 17; }, "num_warps must be 1 to 16"},
      {[](auto& c) { c.block_q = 0; }, "block_q must be a multiple of 16 rows per warp"},
      {[](auto& c) { c.block_q = 64; }, "block_q must be a multiple of 16 rows per warp"},
      {[](auto& c) { c.block_kv = 16; }, "block_kv must be a multiple of 32 keys"},
      {[](auto& c) { c.block_kv = 48; }, "block_kv must be a multiple of 32 keys"},
      {[](auto& c) { c.num_stages = 0; }, "num_stages must be 1 to 4"},
      {[](auto& c) { c.num_stages = 5; }, "num_stages must be 1 to 4"},
      {[](auto& c) { c.min_blocks = 0; }, "min_blocks must be at least 1"}};
  for (const auto& [change, expected] : cases) {
    ForwardMmaConfig config = kLegal;
    change(config);
    const char* const rule = kernel::why_invalid(config);
    REQUIRE_MESSAGE(rule != nullptr, expected);
    CHECK(std::string(rule).starts_with(expected));
  }
}

TEST_CASE("tunables are held to the rules of the kernel's config, and to the architecture") {
  CHECK(unfit(kTunables) == "");
  ForwardTunables odd = kTunables;
  odd.block_kv = 48;
  CHECK(unfit(odd) == "block_kv must be a multiple of 32 keys");
  odd = kTunables;
  problem::Family wide = kFamily;
  wide.head_dim = wide.head_dim_v = 256;
  // Q 64 KiB, and two stages of K and V of 32 KiB each.
  CHECK(codegen::forward_mma_config(wide, kTunables).shared_bytes() == 192 * 1024);
  CHECK(unfit(kTunables, wide, "sm_86") ==
        "needs 196608 bytes of shared memory; sm_86 has 101376 per thread block");
  CHECK(unfit(kTunables, wide, "sm_80") != "");
  CHECK(unfit(kTunables, wide, "sm_90a") == "");
}

TEST_CASE("numbers whose products overflow are refused before anything is computed of them") {
  for (const char* name : {"block_q", "block_kv", "num_stages", "num_warps", "min_blocks"}) {
    for (const int number : {-64, 1025, std::numeric_limits<int>::max()}) {
      const auto config = patched(fmt::format("{{\"{}\": {}}}", name, number));
      const auto rule = codegen::why_unfit(config, kFamily, codegen::find_arch("sm_90a"));
      CHECK(rule == fmt::format("{} is {}; expected 0 to 1024", name, number));
    }
  }
}

TEST_CASE("every architecture is found by its name, and others are told the list") {
  std::string list;
  for (const codegen::Arch& arch : codegen::archs()) {
    CHECK(&codegen::find_arch(arch.name) == &arch);
    // A block also takes 1 KiB that the driver keeps.
    CHECK(arch.shared_bytes_per_block + 1024 <= arch.shared_bytes_per_sm);
    list += fmt::format("{}{}", list.empty() ? "" : ", ", arch.name);
  }
  for (const char* name : {"sm_90", "sm_75", "SM_80", "80", ""}) {
    try {
      codegen::find_arch(name);
      FAIL("nothing was thrown");
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::kUnsupported);
      CHECK(std::string(error.what()) ==
            fmt::format("architecture {} is not supported; expected one of {}", name, list));
    }
  }
}

TEST_CASE("heads that need masks of their own rule out pack_gqa") {
  problem::Family f = kFamily;
  f.head_dim = f.head_dim_v = 64;
  f.gqa_ratio = 3;
  ForwardTunables config = kTunables;
  config.pack_gqa = true;
  config.block_q = 64;
  config.num_warps = 1;
  CHECK(unfit(config, f) == "");
  f.mask = problem::Extent::kPerPair;
  CHECK(unfit(config, f) == "pack_gqa is true; with this mask block_q must be a multiple of 3");
  config.block_q = 48;
  CHECK(unfit(config, f) == "");
  f.mask_per_query_head = true;
  CHECK(unfit(config, f) == "pack_gqa is true; the heads of a kv head must share the mask");
}

}  // namespace codegen_config_test
