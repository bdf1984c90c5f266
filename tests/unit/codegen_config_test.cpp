#include <doctest/doctest.h>
#include <fmt/format.h>

#include <functional>
#include <string>
#include <utility>

#include "attnjit/error.hpp"
#include "codegen/arch.hpp"
#include "codegen/config_json.hpp"
#include "codegen/fields.hpp"
#include "codegen/render.hpp"

using namespace attnjit;
using codegen::for_each_field;
using kernel::ForwardConfig;
using kernel::MaskPackConfig;

namespace {

constexpr ForwardConfig kLegal{.dtype = kernel::DType::kBFloat16,
                               .head_dim = 128,
                               .head_dim_v = 64,
                               .gqa_ratio = 4,
                               .aligned = true,
                               .scale_first = false,
                               .block_q = 128,
                               .block_kv = 64,
                               .num_stages = 2,
                               .num_warps = 8,
                               .min_blocks = 1};
constexpr MaskPackConfig kLegalPack{
    .per_pair = true, .vectorized = true, .block_q = 128, .block_kv = 64, .num_warps = 4};

bool equal(ForwardConfig a, ForwardConfig b) { return codegen::to_json(a) == codegen::to_json(b); }

// What update_from_json() says of `json`; empty if it takes it.
std::string refusal(const std::string& json) {
  ForwardConfig config = kLegal;
  try {
    codegen::update_from_json(config, json);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kInvalidEnvironment);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a config as JSON has its fields in order") {
  CHECK(
      codegen::to_json(kLegal) ==
      R"({"dtype":"bf16","head_dim":128,"head_dim_v":64,"gqa_ratio":4,"aligned":true,)"
      R"("scale_first":false,"pack_heads":false,"block_q":128,"block_kv":64,"num_stages":2,"num_warps":8,)"
      R"("min_blocks":1,"softmax":"running_max"})");
  CHECK(codegen::to_json(kLegalPack) ==
        R"({"per_pair":true,"vectorized":true,"block_q":128,"block_kv":64,"num_warps":4})");
}

TEST_CASE("a config survives the way to JSON and back, each field by itself") {
  ForwardConfig changed = kLegal;
  int next = 3;
  for_each_field(changed, [&](const char*, auto& field) {
    using Field = std::remove_reference_t<decltype(field)>;
    if constexpr (std::is_same_v<Field, int>) field = next++;
    if constexpr (std::is_same_v<Field, bool>) field = !field;
    if constexpr (std::is_same_v<Field, kernel::DType>) field = kernel::DType::kFloat16;
  });
  ForwardConfig read = kLegal;
  CHECK_FALSE(equal(read, changed));
  codegen::update_from_json(read, codegen::to_json(changed));
  CHECK(equal(read, changed));
  codegen::update_from_json(read, codegen::to_json(kLegal));
  CHECK(equal(read, kLegal));
}

TEST_CASE("an update sets what it names and leaves the rest") {
  ForwardConfig config = kLegal;
  codegen::update_from_json(config, "{}");
  CHECK(equal(config, kLegal));
  codegen::update_from_json(config, R"({"block_q": 64, "num_warps": 4})");
  CHECK(config.block_q == 64);
  CHECK(config.num_warps == 4);
  config.block_q = 128;
  config.num_warps = 8;
  CHECK(equal(config, kLegal));
}

TEST_CASE("malformed updates are refused with what was expected") {
  const std::pair<std::string, std::string> cases[] = {
      {"", "config: expected a JSON object"},
      {"block_q=64", "config: expected a JSON object"},
      {"[64]", "config: expected a JSON object"},
      {R"({"block_q": )", "config: expected a JSON object"},
      {R"({"block_q": "64"})", "config: block_q cannot be \"64\"; expected an integer"},
      {R"({"block_q": 64.5})", "config: block_q cannot be 64.5; expected an integer"},
      {R"({"block_q": null})", "config: block_q cannot be null; expected an integer"},
      {R"({"aligned": 1})", "config: aligned cannot be 1; expected true or false"},
      {R"({"dtype": "fp32"})", "config: dtype cannot be \"fp32\"; expected \"fp16\" or \"bf16\""},
      {R"({"dtype": 1})", "config: dtype cannot be 1; expected \"fp16\" or \"bf16\""},
      {R"({"tile": 3})", "config: unknown member \"tile\"; expected one of"},
      {R"({"block_q": 64, "tile": 3})", "config: unknown member \"tile\"; expected one of"},
      // Part of a name is not a name.
      {R"({"warps": 4})", "config: unknown member \"warps\"; expected one of"},
      {R"({"head_dim, head_dim_v": 4})",
       "config: unknown member \"head_dim, head_dim_v\"; expected"},
      {R"({"": 4})", "config: unknown member \"\"; expected"},
      // 2^32 + 64 is not 64.
      {R"({"block_q": 4294967360})", "config: block_q cannot be 4294967360"},
      {R"({"block_q": -9223372036854775744})", "config: block_q cannot be -9223372036854775744"}};
  for (const auto& [json, expected] : cases) {
    CAPTURE(json);
    const std::string message = refusal(json);
    CAPTURE(message);
    CHECK_MESSAGE(message.starts_with(expected), "expected: ", expected);
  }
}

TEST_CASE("each rule of a forward config, broken once") {
  REQUIRE(kernel::why_invalid(kLegal) == nullptr);
  const std::pair<void (*)(ForwardConfig&), std::string> cases[] = {
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
    ForwardConfig config = kLegal;
    change(config);
    const char* const rule = kernel::why_invalid(config);
    REQUIRE_MESSAGE(rule != nullptr, expected);
    CHECK(std::string(rule).starts_with(expected));
    CHECK(codegen::why_invalid(config, codegen::find_arch("sm_90a")) == std::string(rule));
  }
}

TEST_CASE("each rule of a prepass config, broken once") {
  REQUIRE(kernel::why_invalid(kLegalPack) == nullptr);
  const std::pair<void (*)(MaskPackConfig&), std::string> cases[] = {
      {[](auto& c) { c.block_q = 0; }, "block_q must be at least 1"},
      {[](auto& c) { c.block_kv = 0; }, "block_kv must be a multiple of 32 keys"},
      {[](auto& c) { c.block_kv = 40; }, "block_kv must be a multiple of 32 keys"},
      {[](auto& c) { c.num_warps = 0; }, "num_warps must be 1 to 16"},
      {[](auto& c) { c.num_warps = 17; }, "num_warps must be 1 to 16"}};
  for (const auto& [change, expected] : cases) {
    MaskPackConfig config = kLegalPack;
    change(config);
    const char* const rule = kernel::why_invalid(config);
    REQUIRE_MESSAGE(rule != nullptr, expected);
    CHECK(std::string(rule) == expected);
  }
}

TEST_CASE("a tile that an architecture cannot hold is refused by its bytes") {
  ForwardConfig config = kLegal;
  config.head_dim = config.head_dim_v = 256;
  // Q 64 KiB, and two stages of K and V of 32 KiB each.
  CHECK(config.shared_bytes() == 192 * 1024);
  CHECK(codegen::why_invalid(config, codegen::find_arch("sm_86")) ==
        "needs 196608 bytes of shared memory; sm_86 has 101376 per thread block");
  CHECK(codegen::why_invalid(config, codegen::find_arch("sm_80")).has_value());
  CHECK_FALSE(codegen::why_invalid(config, codegen::find_arch("sm_90a")).has_value());
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

TEST_CASE("the softmax policy and packed heads come from JSON by name") {
  kernel::ForwardConfig config = kLegal;
  codegen::update_from_json(config, R"({"softmax": "max_free", "pack_heads": true})");
  CHECK(config.softmax == kernel::SoftmaxPolicy::kMaxFree);
  CHECK(config.pack_heads);
  CHECK_THROWS_WITH_AS(codegen::update_from_json(config, R"({"softmax": "exact"})"),
                       doctest::Contains("\"running_max\" or \"max_free\""), Error);
}

TEST_CASE("heads that need masks of their own are not packed") {
  problem::Family f;
  f.head_dim = f.head_dim_v = 64;
  f.gqa_ratio = 3;
  kernel::ForwardConfig config = codegen::specialise(f);
  config.pack_heads = true;
  config.block_q = 64;
  CHECK_FALSE(codegen::why_foreign(config, f));
  f.mask = problem::Extent::kPerPair;
  CHECK(codegen::why_foreign(config, f));  // 64 rows are not whole queries
  config.block_q = 48;
  CHECK_FALSE(codegen::why_foreign(config, f));
  f.mask_per_query_head = true;
  CHECK(codegen::why_foreign(config, f));
}
