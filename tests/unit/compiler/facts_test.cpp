#include <doctest/doctest.h>

#include "attnjit/error.hpp"
#include "compiler/facts.hpp"

using attnjit::Error;
using namespace attnjit::compiler;

namespace {

Facts sample() {
  return {.registers = 168,
          .stack_bytes = 312,
          .spill_store_bytes = 596,
          .spill_load_bytes = 644,
          .static_shared_bytes = 1024,
          .nvrtc_version = "13.0.88",
          .warnings = {"ptxas info    : (C7511) \"quoted\"", "second\tline"}};
}

/// The JSON of `facts` without one of its fields.
std::string without(const std::string& json, const std::string& field) {
  const std::size_t at = json.find('"' + field + '"');
  REQUIRE(at != std::string::npos);
  std::string broken = json;
  broken[at + 1] = '!';
  return broken;
}

// The code that means serialised products, or nothing.
std::string code_of(const std::string& warning) {
  Facts facts;
  facts.warnings = {"ptxas warning : something else", warning};
  CHECK(facts.serialized() == facts.serialization().has_value());
  return facts.serialization().value_or("");
}

}  // namespace

TEST_CASE("facts survive the way through JSON") {
  CHECK(facts_from_json(to_json(sample())) == sample());
  CHECK(facts_from_json(to_json(Facts{})) == Facts{});
  CHECK(to_json(sample()).find('\n') == std::string::npos);
}

TEST_CASE("each field of the facts is needed, others are ignored") {
  const std::string json = to_json(sample());
  for (const char* field : {"registers", "stack_bytes", "spill_store_bytes", "spill_load_bytes",
                            "static_shared_bytes", "nvrtc_version", "warnings"}) {
    CAPTURE(field);
    CHECK_THROWS_AS(facts_from_json(without(json, field)), Error);
  }
  CHECK(facts_from_json("{\"later\":[1]," + json.substr(1)) == sample());
}

TEST_CASE("what is not JSON, or of another type, is refused") {
  for (const char* text : {"", "{", "[]", "7", "null", "{\"registers\":\"many\"}"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(facts_from_json(text), Error);
  }
  std::string json = to_json(sample());
  json.replace(json.find(":168"), 4, ":1e300");
  CHECK_THROWS_AS(facts_from_json(json), Error);
}

TEST_CASE("warnings with bytes that are no UTF-8 can be written") {
  Facts facts;
  facts.warnings = {"bad \xff byte"};
  CHECK(facts_from_json(to_json(facts)).warnings[0].starts_with("bad "));
}

TEST_CASE("serialization() knows the codes and only in ptxas lines") {
  CHECK(code_of("ptxas info    : (C7510) Potential Performance Loss") == "C7510");
  CHECK(code_of("ptxas info    : (C7519) warpgroup.arrive is injected") == "C7519");
  CHECK(code_of("ptxas info    : (C7520) Potential Performance Loss") == "C7520");
  for (const char* const line :
       {"ptxas info    : (C7508) setmaxnreg ignored", "ptxas info    : (C7521) something later",
        "ptxas info    : (C7602) too few registers", "ptxas info    : (C75",
        "k.cu(1): warning #1: (C7510) in a string"}) {
    CAPTURE(line);
    CHECK(code_of(line).empty());
  }
  CHECK_FALSE(Facts{}.serialized());
}
