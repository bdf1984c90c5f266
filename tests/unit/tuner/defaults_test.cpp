#include <doctest/doctest.h>

#include <functional>
#include <string>

#include "attnjit/error.hpp"
#include "base/json.hpp"
#include "tuner/config_zero.hpp"
#include "tuner/embedded_configs.hpp"

using namespace attnjit;
using problem::Extent;
using tuner::Operands;
using tuner::Traits;

namespace {

using Rules = tuner::TileRules<codegen::BackwardTile>;

Rules rules(const std::string& groups) { return {base::parse_json(groups), "dkv"}; }

std::string refusal(const std::string& groups) {
  try {
    rules(groups);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kInvalidEnvironment);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("the first rule whose conditions a problem meets gives its tile") {
  const Rules table = rules(R"([
      {"when": {"head_dim": [1, 64]}, "rules": [
        {"when": {"operands": ["mask", "both"], "aligned": true}, "use": {"block_q": 1}},
        {"when": {"shared_kib": [160, 219], "rows": 64}, "use": {"block_q": 2}},
        {"use": {"block_q": 3}}]},
      {"rules": [{"when": {"dbias": "add", "rows": [1, null]}, "use": {"block_q": 4}}]}])");
  const auto block_q = [&](const Traits& traits) { return table.find(traits).use.block_q; };
  CHECK(block_q({.head_dim = 64, .operands = Operands::kBoth, .aligned = true}) == 1);
  CHECK(block_q({.head_dim = 64, .operands = Operands::kBoth}) == 3);
  CHECK(block_q({.head_dim = 8, .rows = 64, .shared_kib = 160}) == 2);
  CHECK(block_q({.head_dim = 8, .rows = 128, .shared_kib = 160}) == 3);
  CHECK(block_q({.head_dim = 8, .rows = 64, .shared_kib = 220}) == 3);
  CHECK(block_q({.head_dim = 65, .rows = 1 << 30, .dbias = codegen::DbiasMethod::kAdd}) == 4);
  CHECK_THROWS_WITH_AS(table.find({.head_dim = 65, .dbias = codegen::DbiasMethod::kAdd}),
                       doctest::Contains("no rule"), Error);
  CHECK_THROWS_WITH_AS(table.find({.head_dim = 65}),
                       doctest::Contains("no rule of dkv for {\"head_dim\":65,"), Error);
}

TEST_CASE("a group's candidates are those of its rules, lists crossed") {
  const Rules table = rules(R"([
      {"candidates": [{"block_q": [32, 64], "late": [false, true]}], "rules": [{"use": {}}]}])");
  const auto& rule = table.find({});
  REQUIRE(rule.candidates.size() == 4);
  const auto tile = base::patched(codegen::BackwardTile{}, rule.candidates[2]);
  CHECK(tile.block_q == 64);
  CHECK_FALSE(tile.late);
}

TEST_CASE("a table that cannot be meant is refused") {
  const auto expect = [](const std::string& groups, const std::string& message) {
    CAPTURE(groups);
    CHECK(refusal(groups).find(message) != std::string::npos);
  };
  expect(R"([{"rules": [{"use": {"block": 64}}]}])", "dkv: rule 1: unknown member \"block\"");
  expect(R"([{"rules": [{"when": {"width": 64}, "use": {}}]}])",
         "dkv: rule 1: when: width is no trait of a problem");
  expect(R"([{"rules": [{"when": {"aligned": 1}, "use": {}}]}])", "aligned is 1; expected true");
  expect(R"([{"rules": [{"when": {"operands": ["mask", "sinks"]}, "use": {}}]}])",
         "operands is \"sinks\"");
  expect(R"([{"when": {"head_dim": ["a", 2]}, "rules": [{"use": {}}]}])", "head_dim is \"a\"");
  CHECK_THROWS_WITH_AS(tuner::read_defaults("{\"schema\": 1}", "{}"),
                       doctest::Contains("defaults of the forward: schema is 1"), Error);
  CHECK_THROWS_WITH_AS(tuner::read_defaults("{\"schema\": 2}", "{\"schema\": 2}"),
                       doctest::Contains("defaults: "), Error);
}

// Of 128 keys ptxas would spill.
TEST_CASE("biases of fp32 and of unaligned rows get smaller tiles of wgmma") {
  const auto block_kv = [](int head_dim, int bucket_q, auto change) {
    problem::PlanKey key{.bucket_q = bucket_q, .bucket_kv = bucket_q};
    problem::Family& f = key.family;
    f.head_dim = f.head_dim_v = head_dim;
    f.aligned = f.positive_scale = f.bias_vectorized = true;
    f.gqa_ratio = 1;
    f.bias = problem::Extent::kPerPair;
    f.bias_dtype = DType::kBFloat16;
    change(f);
    const codegen::ForwardTunables zero = tuner::config_zero(key, codegen::find_arch("sm_90a"));
    REQUIRE(zero.path == codegen::Path::kWgmma);
    return zero.block_kv;
  };
  const auto fp32 = [](problem::Family& f) { f.bias_dtype = DType::kFloat32; };
  const auto odd = [](problem::Family& f) { f.bias_vectorized = false; };
  CHECK(block_kv(128, 2048, [](problem::Family&) {}) == 128);
  CHECK(block_kv(64, 2048, fp32) == 128);
  CHECK(block_kv(64, 2048, odd) == 96);
  for (const auto& change : {std::function<void(problem::Family&)>(fp32), {odd}}) {
    CHECK(block_kv(128, 2048, change) == 96);
    CHECK(block_kv(128, 512, change) == 64);
    CHECK(block_kv(192, 2048, change) == 64);
    CHECK(block_kv(256, 2048, change) == 32);
  }
  const auto per_key = [](problem::Family& f) {
    f.bias = problem::Extent::kPerKey;
    f.bias_dtype = DType::kFloat32;
  };
  CHECK(block_kv(128, 2048, per_key) == 128);
}

TEST_CASE("a dbias that sums planes is added up, whether its rows are aligned or not") {
  problem::BackwardPlanKey key{.bucket_q = 4096, .bucket_kv = 4096};
  problem::Family& f = key.family.scores;
  f.head_dim = f.head_dim_v = 64;
  f.aligned = f.positive_scale = true;
  f.gqa_ratio = 1;
  f.bias = key.family.dbias = problem::Extent::kPerPair;
  key.family.dbias_reduces_planes = true;
  for (const char* arch : {"sm_80", "sm_90a"}) {
    const codegen::BackwardTunables zero = tuner::config_zero(key, codegen::find_arch(arch));
    CHECK(zero.dbias_method == codegen::DbiasMethod::kAdd);
    CHECK((zero.dkv.path == codegen::Path::kWgmma) == (arch == std::string("sm_90a")));
  }
}

TEST_CASE("wgmma keeps the planes of a dbias apart where these are few") {
  problem::BackwardPlanKey key{.bucket_q = 4096, .bucket_kv = 4096};
  problem::Family& f = key.family.scores;
  f.head_dim = f.head_dim_v = 128;
  f.aligned = f.positive_scale = f.bias_vectorized = true;
  f.gqa_ratio = 1;
  f.bias = key.family.dbias = problem::Extent::kPerPair;
  f.bias_dtype = key.family.dbias_dtype = f.dtype;
  key.family.dbias_vectorized = key.family.dbias_reduces_planes = true;
  const auto method = [&](const char* arch) {
    return tuner::config_zero(key, codegen::find_arch(arch)).dbias_method;
  };
  using enum codegen::DbiasMethod;
  CHECK(method("sm_90a") == kAdd);
  key.family.dbias_reduces_few = true;
  CHECK(method("sm_90a") == kPerPlane);
  CHECK(method("sm_80") == kAdd);
  key.family.deterministic = true;
  CHECK(method("sm_90a") == kPerPlane);
  f.head_dim = f.head_dim_v = 256;
  CHECK(method("sm_90a") == kKernel);
  // One of all axes is stored as it is where that can be.
  f.head_dim = f.head_dim_v = 128;
  key.family.dbias_reduces_planes = key.family.dbias_reduces_few = false;
  CHECK(method("sm_90a") == kStore);
  key.family.dbias_dtype = DType::kFloat32;
  CHECK(method("sm_90a") == kPerPlane);
  CHECK(method("sm_80") == kStore);
}

TEST_CASE("deterministic backwards of packed sequences run on wgmma, whatever their width") {
  problem::BackwardPlanKey key{.bucket_q = 1024, .bucket_kv = 1024};
  problem::Family& f = key.family.scores;
  f.aligned = f.packed = key.family.deterministic = true;
  for (const int head_dim : {32, 64, 128, 256}) {
    f.head_dim = f.head_dim_v = head_dim;
    const auto zero = tuner::config_zero(key, codegen::find_arch("sm_90a"));
    CHECK(zero.dkv.path == codegen::Path::kWgmma);
    CHECK(zero.dq.path == codegen::Path::kWgmma);
    CHECK(zero.dq_method == codegen::DqMethod::kKernel);
  }
}

TEST_CASE("short backwards of wgmma have the first keys store dq") {
  const auto method = [](int head_dim, int bucket_q, auto change) {
    problem::BackwardPlanKey key{.bucket_q = bucket_q, .bucket_kv = bucket_q};
    problem::Family& f = key.family.scores;
    f.head_dim = f.head_dim_v = head_dim;
    f.aligned = f.positive_scale = true;
    f.gqa_ratio = 1;
    change(key.family);
    const codegen::BackwardTunables zero = tuner::config_zero(key, codegen::find_arch("sm_90a"));
    REQUIRE(zero.dkv.path == codegen::Path::kWgmma);
    return zero.dq_method;
  };
  const auto full = [](problem::BackwardFamily&) {};
  const auto causal = [](problem::BackwardFamily& f) { f.scores.bounded_right = true; };
  using enum codegen::DqMethod;
  CHECK(method(128, 1024, full) == kFirstStores);
  CHECK(method(128, 2048, full) == kAdd);
  CHECK(method(128, 1024, causal) == kFirstStores);
  CHECK(method(128, 2048, causal) == kFirstStores);
  CHECK(method(128, 4096, causal) == kAdd);
  CHECK(method(64, 2048, causal) == kAdd);
  CHECK(method(64, 1024, full) == kFirstStores);
  CHECK(method(256, 512, full) == kKernel);
  const auto window = [](problem::BackwardFamily& f) {
    f.scores.bounded_left = f.scores.bounded_right = true;
  };
  const auto shared_keys = [&](problem::BackwardFamily& f) {
    window(f);
    f.scores.gqa_ratio = 4;
  };
  CHECK(method(128, 512, window) == kAdd);
  CHECK(method(128, 1024, shared_keys) == kFirstStores);
  const auto masked = [](problem::BackwardFamily& f) { f.scores.mask = problem::Extent::kPerKey; };
  CHECK(method(128, 512, masked) == kAdd);
  CHECK(method(128, 512, [](problem::BackwardFamily& f) { f.deterministic = true; }) == kAdd);
}

TEST_CASE("configuration 0 of the backward is legal for every kind of problem and architecture") {
  std::size_t checked = 0, illegal = 0;  // one assertion for each would take its time
  const auto check = [&](const problem::BackwardPlanKey& key) {
    for (const codegen::Arch& arch : codegen::archs()) {
      const auto rule = codegen::why_unfit(tuner::config_zero(key, arch), key.family, arch);
      ++checked;
      if (!rule) continue;
      ++illegal;
      MESSAGE(arch.name, " ", problem::describe(key), ": ", *rule);
    }
  };
  constexpr Extent kExtents[] = {Extent::kAbsent, Extent::kPerQuery, Extent::kPerKey,
                                 Extent::kPerPair};
  for (const int head_dim : {1, 33, 64, 72, 128, 136, 256}) {
    for (int bits = 0; bits < 1024; ++bits) {
      const auto bit = [&](int i) { return (bits >> i & 1) != 0; };
      for (const Extent mask : kExtents) {
        for (const Extent bias : kExtents) {
          problem::BackwardPlanKey key;
          problem::Family& f = key.family.scores;
          f.head_dim = f.head_dim_v = head_dim;
          f.aligned = head_dim % 8 == 0 && bit(0);
          f.mask = mask;
          f.mask_vectorized = bit(1);
          f.bias = bias;
          f.bias_vectorized = bit(1);
          f.bias_dtype = bit(2) ? DType::kFloat32 : DType::kBFloat16;
          f.bounded_right = bit(3);
          f.bounded_left = bit(4);
          f.softcap = bit(8);
          f.packed = bit(9);
          f.seqlens = bit(4) && !f.packed;
          key.family.deterministic = bit(5);
          key.family.dbias = bit(6) ? bias : Extent::kAbsent;
          key.family.dbias_vectorized = bit(1);
          key.family.dbias_reduces_planes = bit(7) && bit(6) && bias != Extent::kAbsent;
          key.family.dbias_reduces_few =
              key.family.dbias_reduces_planes && bias == Extent::kPerPair && bit(0) && !f.packed;
          key.bucket_q = key.bucket_kv = 1024;
          check(key);
        }
      }
    }
  }
  CHECK(checked == 7 * 1024 * 16 * codegen::archs().size());
  CHECK(illegal == 0);
}
