#include "tuner/record.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "attnjit/error.hpp"
#include "base/json.hpp"
#include "unit/tuner_fixtures.hpp"

using namespace attnjit;

namespace tuner_record_test {
using base::Json;
using tuner::BackwardRecord;
using tuner::Record;

namespace {

Record sample() { return test::make_record(test::tune_key()); }

// The message with which `text` is refused as a record; empty where it is taken.
std::string refusal(const std::string& text) {
  try {
    tuner::record_from_json(text);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kCache);
    CHECK(std::string(error.what()).starts_with("tuning record: "));
    return error.what();
  }
  return "";
}

template <class Change>
std::string refusal_after(Change change) {
  Json object = base::parse_json(to_json(sample()));
  change(object);
  return refusal(object.dump());
}

}  // namespace

TEST_CASE("a record survives its text") {
  Record record = sample();
  record.key.plan.family.mask = problem::Extent::kPerPair;
  record.key.plan.family.bias = problem::Extent::kPerQuery;
  record.key.plan.family.bias_dtype = DType::kFloat32;
  record.key.plan.family.dtype = DType::kFloat16;
  record.partial = true;
  const Record read = std::get<Record>(tuner::record_from_json(to_json(record)));
  CHECK(to_json(read) == to_json(record));
  CHECK(read.key == record.key);
  CHECK(read.config == record.config);
  CHECK(read.us == 80.5);
  CHECK(read.gain() == doctest::Approx(0.195));
  CHECK(read.partial);
}

TEST_CASE("a record of a backward survives its text, and is none of a forward") {
  BackwardRecord record = test::make_record(test::backward_tune_key());
  record.config.dq.block_q = 64;
  const tuner::AnyRecord any = tuner::record_from_json(to_json(record));
  const auto& read = std::get<BackwardRecord>(any);
  CHECK(to_json(any) == to_json(record));
  CHECK(read.key == record.key);
  CHECK(read.config == record.config);
  const Json object = base::parse_json(to_json(record));
  CHECK(object.at("pass") == "backward");
  const Json& family = object.at("key").at("family");
  CHECK(family.at("dbias") == "qk");
  CHECK(family.at("scores").at("bias") == "qk");
  CHECK(object.at("config").at("dkv").at("num_stages") == 1);
  CHECK(base::parse_json(to_json(sample())).at("pass") == "forward");
  const auto after = [&](auto change) {
    Json changed = object;
    change(changed);
    return refusal(changed.dump());
  };
  CHECK(after([](Json& o) { o["pass"] = "sideways"; }).find("pass is \"sideways\"") !=
        std::string::npos);
  CHECK_FALSE(after([](Json& o) { o["pass"] = "forward"; }).empty());  // it has no such family
  CHECK_FALSE(after([](Json& o) { o["key"]["family"].erase("deterministic"); }).empty());
  CHECK_FALSE(after([](Json& o) { o["key"]["family"]["scores"].erase("mask"); }).empty());
  CHECK_FALSE(after([](Json& o) { o["config"]["dkv"]["block_q"] = 48; }).empty());
  CHECK(after([](Json& o) { o["config"]["dq_method"] = "add"; }).find("not deterministic") !=
        std::string::npos);
}

TEST_CASE("every value of a record has a name") {
  const Json object = base::parse_json(to_json(sample()));
  CHECK(object.at("schema") == 3);
  CHECK(object.at("device").at("name") == "NVIDIA H200");
  CHECK(object.at("key").at("family").at("mask") == "none");
  CHECK(object.at("key").at("bucket_planes") == 16);
  CHECK(object.at("config").at("block_q") == 64);
  CHECK(object.at("result").at("verdict") == "gain");
  CHECK(object.at("provenance").at("nvrtc") == "13.0.88");
  CHECK(to_json(sample()).find('\n') == std::string::npos);
}

TEST_CASE("a record without one of its members is refused") {
  const Json whole = base::parse_json(to_json(sample()));
  for (const auto& [name, value] : whole.items()) {
    CAPTURE(name);
    CHECK_FALSE(refusal_after([&](Json& object) { object.erase(name); }).empty());
    if (!value.is_object() || name == "config")
      continue;  // what a config lacks is configuration 0's
    for (const auto& [member, inner] : value.items()) {
      if (member == "gain") continue;  // follows from the times
      CAPTURE(member);
      CHECK_FALSE(refusal_after([&](Json& object) { object[name].erase(member); }).empty());
    }
  }
}

TEST_CASE("what this version does not know makes a record useless, or is ignored") {
  // Another version may mean another kernel by these members.
  CHECK_FALSE(refusal_after([](Json& o) { o["config"]["cluster"] = 2; }).empty());
  CHECK_FALSE(refusal_after([](Json& o) { o["config"]["block_q"] = "large"; }).empty());
  CHECK_FALSE(refusal_after([](Json& o) { o["config"]["softmax"] = "exact"; }).empty());
  CHECK_FALSE(refusal_after([](Json& o) { o["key"]["family"]["sinks"] = true; }).empty());
  CHECK_FALSE(refusal_after([](Json& o) { o["key"]["family"]["mask"] = "diagonal"; }).empty());
  CHECK_FALSE(refusal_after([](Json& o) { o["device"]["arch"] = "sm_70"; }).empty());
  CHECK_FALSE(refusal_after([](Json& o) { o["schema"] = 2; }).empty());
  // These members add remarks and change no meaning.
  CHECK(refusal_after([](Json& o) { o["note"] = "x"; }).empty());
  CHECK(refusal_after([](Json& o) { o["provenance"]["clock_mhz"] = 1755; }).empty());
}

TEST_CASE("a configuration that is not legal, or another family's, is refused") {
  CHECK(refusal_after([](Json& o) { o["config"]["block_kv"] = 48; }).find("block_kv") !=
        std::string::npos);
  CHECK(refusal_after([](Json& o) { o["config"]["num_stages"] = 4; }).find("shared memory") !=
        std::string::npos);
  CHECK(refusal_after([](Json& o) { o["config"]["head_dim"] = 64; }).find("unknown member") !=
        std::string::npos);
}

TEST_CASE("numbers are finite and buckets are ours") {
  CHECK_FALSE(refusal_after([](Json& o) { o["result"]["us"] = nullptr; }).empty());
  CHECK_FALSE(refusal_after([](Json& o) { o["result"]["us"] = -1; }).empty());
  CHECK_FALSE(refusal_after([](Json& o) { o["key"]["bucket_q"] = 1000; }).empty());
  CHECK_FALSE(refusal_after([](Json& o) { o["key"]["bucket_q"] = 48; }).empty());
  CHECK_FALSE(refusal_after([](Json& o) { o["key"]["bucket_q"] = 150; }).empty());
  CHECK(refusal_after([](Json& o) { o["key"]["bucket_q"] = 144; }).empty());
  CHECK_FALSE(refusal_after([](Json& o) { o["key"]["bucket_planes"] = 3; }).empty());
  std::string text = to_json(sample());
  text.replace(text.find("80.5"), 4, "1e999");
  CHECK_FALSE(refusal(text).empty());
  text.replace(text.find("1e999"), 5, "NaN");
  CHECK_FALSE(refusal(text).empty());
}

TEST_CASE("numbers are exact, words are known and noise is possible") {
  const auto refused = [](const char* group, const char* name, const Json& value,
                          const char* reason) {
    CAPTURE(group);
    CAPTURE(name);
    CAPTURE(value);
    const std::string message = refusal_after([&](Json& o) { o.at(group).at(name) = value; });
    CHECK(message.find(reason) != std::string::npos);
  };
  constexpr std::int64_t kTooLarge = (std::int64_t{1} << 32) + 132;
  refused("device", "sm_count", kTooLarge, "an integer from");
  refused("device", "sm_count", -1, "1 or more");
  refused("device", "name", "", "1 to 128");
  refused("device", "name", std::string(129, 'x'), "1 to 128");
  refused("device", "l2_bytes", -1, "an integer from 0");
  refused("key", "bucket_q", true, "an integer from");
  refused("config", "block_q", kTooLarge, "an integer from");
  refused("result", "rounds", kTooLarge, "an integer from");
  refused("result", "rounds", 14.5, "an integer from");
  refused("result", "partial", 1, "true or false");
  refused("result", "us", true, "a finite number");
  refused("result", "us", 0, "above 0");
  refused("result", "default_us", -100, "above 0");
  refused("result", "us", 1e300, "an hour at most");
  refused("result", "mad", 1e-300, "from 0.01 to us");
  refused("result", "mad", -0.5, "from 0.01 to us");
  refused("result", "mad", 80.6, "from 0.01 to us");
  refused("result", "verdict", "budget", "\"no_gain\"");
  refused("result", "verdict", 1, "a string");
  refused("provenance", "driver", kTooLarge, "an integer from");
  refused("provenance", "time", 1.5, "an integer from");
  refused("provenance", "time", 1e20, "an integer from");
  refused("provenance", "time", std::numeric_limits<std::int64_t>::min(), "seconds since 1970");
  CHECK_FALSE(refusal_after([](Json& o) { o["key"]["family"]["head_dim"] = 256.5; }).empty());
  CHECK_FALSE(refusal_after([](Json& o) { o["key"]["family"]["aligned"] = 1; }).empty());
  // A ratio of 0 is divided by, and large sizes overflow.
  for (const char* name : {"head_dim", "head_dim_v", "gqa_ratio"}) {
    for (const int size : {-1, 0, 1 << 30}) {
      CHECK(refusal_after([&](Json& o) { o["key"]["family"][name] = size; }).find(name) !=
            std::string::npos);
    }
  }
}

TEST_CASE("a record with two members of one name is refused") {
  std::string text = to_json(sample());
  text.replace(text.find("\"mad\""), 0, "\"mad\":0.02,");
  CHECK(refusal(text).find("two members \"mad\"") != std::string::npos);
}

TEST_CASE("nested JSON in a record is refused, and in a short line") {
  const std::string nested = std::string(300'000, '[') + std::string(300'000, ']');
  CHECK(refusal(nested).find("levels of brackets") != std::string::npos);
  std::string text = to_json(sample());
  text.replace(text.find("\"NVIDIA H200\""), 13,
               std::string(30'000, '[') + std::string(30'000, ']'));
  CHECK(refusal(text).find("levels of brackets") != std::string::npos);
  CHECK(refusal_after([](Json& o) { o["pass"] = std::string(1'000'000, 'a'); }).size() < 300);
}

TEST_CASE("no text makes reading a record crash") {
  const std::string whole = to_json(sample());
  for (std::size_t length = 0; length < whole.size(); length += 7) {
    CHECK_FALSE(refusal(whole.substr(0, length)).empty());
  }
  for (std::size_t i = 0; i < whole.size(); i += 3) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(0xff);
    CAPTURE(i);
    CHECK_FALSE(refusal(damaged).empty());
  }
  CHECK_FALSE(refusal("[]").empty());
  CHECK_FALSE(refusal(std::string(100000, '[')).empty());
  CHECK_FALSE(refusal(R"({"schema": 3, "pass": "forward", "device": 7})").empty());
}

TEST_CASE("of two records the less noisy one is better, then the newer one") {
  Record quiet = sample(), noisy = sample(), newer = sample();
  noisy.mad = 2;
  noisy.time += 100;
  newer.time += 1;
  CHECK(to_json(better(quiet, noisy)) == to_json(quiet));
  CHECK(to_json(better(noisy, quiet)) == to_json(quiet));
  CHECK(to_json(better(quiet, newer)) == to_json(newer));
  CHECK(to_json(better(newer, quiet)) == to_json(newer));
}

TEST_CASE("merging is commutative, associative and idempotent") {
  std::vector<Record> records(5, sample());
  records[1].mad = 0.1;
  records[2].time += 5;
  records[3].exact = "another problem of the bucket";
  records[4] = records[1];
  records[4].time += 5;
  std::vector<std::size_t> order = {0, 1, 2, 3, 4};
  const auto merged = [&] {
    Record result = records[order[0]];
    for (const std::size_t i : order) result = Record(better(result, records[i]));
    return to_json(result);
  };
  const std::string expected = merged();
  CHECK(expected == to_json(records[4]));
  while (std::ranges::next_permutation(order).found) CHECK(merged() == expected);
}

}  // namespace tuner_record_test
