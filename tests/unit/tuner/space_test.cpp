#include "tuner/space.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "attnjit/error.hpp"
#include "base/fields_json.hpp"
#include "tuner/config_zero.hpp"

using namespace attnjit;

namespace tuner_space_test {
using problem::BackwardPlanKey;
using problem::PlanKey;
using tuner::BackwardSearchSpace;
using tuner::SearchSpace;

namespace {

PlanKey key(int head_dim, int bucket_q = 1024, int gqa_ratio = 1) {
  problem::Family f;
  f.gqa_ratio = gqa_ratio;
  f.head_dim = f.head_dim_v = head_dim;
  f.aligned = head_dim % 8 == 0;
  return {f, bucket_q, 1024, 16};
}

// With and without operands, gradients that store, sum and reduce, and both kinds of determinism.
std::vector<BackwardPlanKey> backward_keys() {
  using problem::Extent;
  std::vector<BackwardPlanKey> keys;
  for (const int head_dim : {8, 33, 64, 128, 256}) {
    for (const std::int32_t bucket : {1, 64, 512, 4096}) {
      for (const Extent dbias : {Extent::kAbsent, Extent::kPerKey, Extent::kPerPair}) {
        for (const bool twice : {false, true}) {
          for (const bool deterministic : {false, true}) {
            BackwardPlanKey k;
            k.family.scores = key(head_dim).family;
            k.family.scores.bias = k.family.dbias = dbias;
            k.family.scores.bias_vectorized = k.family.dbias_vectorized = twice;
            k.family.dbias_reduces_planes = twice && dbias != Extent::kAbsent;
            k.family.dbias_reduces_few = twice && dbias == Extent::kPerPair && bucket == 512;
            k.family.deterministic = deterministic;
            k.bucket_q = k.bucket_kv = bucket;
            keys.push_back(k);
          }
        }
      }
    }
  }
  return keys;
}

std::string space(const std::string& groups) {
  return "{\"schema\": 3, \"space\": \"test\", \"groups\": [" + groups + "]}";
}

std::vector<std::string> tiles(const SearchSpace& space, const PlanKey& k, const char* arch) {
  std::vector<std::string> list;
  for (const auto& config : space.candidates(k, codegen::find_arch(arch))) {
    list.push_back(codegen::describe_tile(config));
  }
  return list;
}

std::string refusal(const std::string& json) {
  try {
    SearchSpace refused{json};
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kInvalidEnvironment);
    return error.what();
  }
  return "";
}

}  // namespace

// The records of users with an older version are ignored then.
TEST_CASE("the changelog names the search spaces") {
  std::ostringstream changelog;
  changelog << std::ifstream(ATTNJIT_SOURCE_DIR "/CHANGELOG.md").rdbuf();
  for (const std::string& space : {SearchSpace().name(), BackwardSearchSpace().name()}) {
    CAPTURE(space);
    CHECK(changelog.str().find('`' + space + '`') != std::string::npos);
  }
}

TEST_CASE("the built-in space: configuration 0 first, all legal, none twice, at most 30") {
  const SearchSpace built_in;
  CHECK(built_in.name() == "forward-7");
  for (const codegen::Arch& arch : codegen::archs()) {
    for (const int head_dim : {1, 8, 33, 64, 80, 128, 192, 256}) {
      for (const std::int32_t bucket : problem::kLengthBuckets) {
        const PlanKey k = key(head_dim, bucket, head_dim % 3 + 1);
        const auto list = built_in.candidates(k, arch);
        CAPTURE(std::string(arch.name));
        CAPTURE(head_dim);
        CAPTURE(bucket);
        REQUIRE(!list.empty());
        CHECK(list[0] == tuner::config_zero(k, arch));
        CHECK(list.size() >= 4);
        CHECK(list.size() <= 30);
        std::set<std::string> texts;
        for (const auto& config : list) {
          CHECK(!codegen::why_unfit(config, k.family, arch));
          const int pack_gqa_heads = config.pack_gqa ? k.family.gqa_ratio : 1;
          CHECK(config.block_q <= std::max(64, bucket * pack_gqa_heads));
          texts.insert(base::to_json_value(config).dump());
        }
        CHECK(texts.size() == list.size());
      }
    }
  }
}

void check_candidates(const BackwardPlanKey& k, const codegen::Arch& arch) {
  static const BackwardSearchSpace built_in;
  const auto list = built_in.candidates(k, arch);
  CAPTURE(std::string(arch.name));
  CAPTURE(problem::describe(k));
  REQUIRE(!list.empty());
  CHECK(list[0] == tuner::config_zero(k, arch));
  CHECK(list.size() >= 2);
  CHECK(list.size() <= 40);
  std::set<std::string> texts;
  for (const auto& config : list) {
    CHECK(codegen::why_unfit(config, k.family, arch) == std::nullopt);
    CHECK(config.dkv.block_kv <= std::max({64, k.bucket_kv, list[0].dkv.block_kv}));
    const bool own_dq = config.dq_method == codegen::DqMethod::kKernel;
    CHECK((own_dq || config.dq == list[0].dq));
    const bool own_dbias = config.dbias_method == codegen::DbiasMethod::kKernel;
    CHECK((own_dbias || config.dbias == list[0].dbias));
    const bool in_order = own_dq || config.dkv.path != codegen::Path::kMma;
    CHECK((in_order || !k.family.deterministic));
    texts.insert(base::to_json_value(config).dump());
  }
  CHECK(texts.size() == list.size());
}

// Keys take the architectures by turns, and each that of Hopper.
TEST_CASE("the built-in space of the backward: legal, none twice, and no kernels twice") {
  CHECK(BackwardSearchSpace().name() == "backward-7");
  std::size_t turn = 0;
  for (const BackwardPlanKey& k : backward_keys()) {
    check_candidates(k, codegen::find_arch("sm_90a"));
    check_candidates(k, codegen::archs()[turn++ % codegen::archs().size()]);
  }
}
TEST_CASE("slow: the built-in space of the backward, on every architecture") {
  for (const codegen::Arch& arch : codegen::archs()) {
    for (const BackwardPlanKey& k : backward_keys()) check_candidates(k, arch);
  }
}

TEST_CASE("members of a tile cross too, and a group may be for problems with operands only") {
  const BackwardSearchSpace nested(
      space(R"({"head_dim": [1, 128], "operands": false, "candidates": [
      {"dkv": {"block_q": 64, "late": [false, true], "fresh": ["none", "shared+warp"]}, "split": [true, false]}]})"));
  BackwardPlanKey k;
  k.family.scores = key(128).family;
  k.bucket_q = k.bucket_kv = 1024;
  const codegen::Arch& arch = codegen::find_arch("sm_80");
  const auto list = nested.candidates(k, arch);
  REQUIRE(list.size() == 8);  // configuration 0 is one of the eight
  CHECK(list[0] == tuner::config_zero(k, arch));
  std::set<std::tuple<bool, kernel::Fresh, bool>> seen;
  for (const auto& each : list) seen.emplace(each.dkv.late, each.dkv.fresh, each.split);
  CHECK(seen.size() == 8);
  k.family.scores.mask = problem::Extent::kPerPair;
  k.family.scores.mask_vectorized = true;
  CHECK(nested.candidates(k, arch).size() == 1);
  const std::string group = R"({"head_dim": [1, 64], "candidates": [)";
  CHECK_THROWS_WITH_AS(BackwardSearchSpace(space(group + R"({"dkv": {"block": 64}}]})")),
                       doctest::Contains("dkv: unknown member \"block\""), Error);
}

TEST_CASE("lists cross in order, and what is configuration 0 already is not repeated") {
  const SearchSpace crossed(space(R"({"head_dim": [65, 128], "candidates": [
      {"block_q": 64, "block_kv": [32, 64], "num_stages": [1, 2], "num_warps": 4, "min_blocks": 1},
      {"block_q": 128, "block_kv": 32, "num_stages": 2, "num_warps": 4, "min_blocks": 2},
      {"softmax": "running_max"}]})"));
  CHECK(tiles(crossed, key(128), "sm_80") ==
        std::vector<std::string>{"q128 kv32 s2 w4 b2 max_free", "q64 kv32 s1 w4 b1 max_free",
                                 "q64 kv32 s2 w4 b1 max_free", "q64 kv64 s1 w4 b1 max_free",
                                 "q64 kv64 s2 w4 b1 max_free", "q128 kv32 s2 w4 b2"});
}

TEST_CASE("a group serves its head dims and rows only, and legality is the architecture's") {
  const SearchSpace limited(space(R"({"head_dim": [129, 256], "max_rows": 64, "candidates": [
      {"block_q": 64, "block_kv": 64, "num_stages": 3, "num_warps": 4, "min_blocks": 1}]})"));
  CHECK(tiles(limited, key(256, 64), "sm_90a").size() == 2);
  CHECK(tiles(limited, key(256, 64), "sm_86").size() == 1);  // 224 KiB of shared memory
  CHECK(tiles(limited, key(256, 128), "sm_90a").size() == 1);
  CHECK(tiles(limited, key(128, 64), "sm_90a").size() == 1);
}

TEST_CASE("a space that cannot be meant is refused") {
  const auto holds = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  CHECK(holds(refusal("{"), "search space"));
  CHECK(holds(refusal(R"({"schema": 2, "space": "x", "groups": []})"), "schema is 2"));
  CHECK(holds(refusal(R"({"schema": 3, "groups": []})"), "space"));
  CHECK(holds(refusal(space(R"({"candidates": []})")), "head_dim"));
  const std::string group = R"({"head_dim": [1, 64], "candidates": [)";
  CHECK(holds(refusal(space(group + R"({"block_qq": 64}]})")), "block_qq"));
  CHECK(holds(refusal(space(group + R"({"block_q": "big"}]})")), "block_q"));
  CHECK(holds(refusal(space(R"({"head_dim": [1, 64.5], "candidates": []})")), "head_dim"));
  CHECK(holds(refusal(space(R"({"head_dim": [1, 4294967360], "candidates": []})")), "head_dim"));
  CHECK(holds(refusal(space(R"({"head_dim": [1, 64], "max_rows": 1e3, "candidates": []})")),
              "max_rows"));
  std::string tens = "[0";
  for (int i = 1; i < 10; ++i) tens += fmt::format(", {}", i);
  tens += "]";
  std::string wide = "{";
  for (const char* name : {"block_q", "block_kv", "num_stages", "num_warps", "min_blocks"}) {
    wide += fmt::format("{}\"{}\": {}", wide == "{" ? "" : ", ", name, tens);
  }
  CHECK(holds(refusal(space(group + wide + "}]}")), "shorten them"));
}

}  // namespace tuner_space_test
