#include <doctest/doctest.h>

#include <string>

#include "attnjit/error.hpp"
#include "base/fields_json.hpp"
#include "base/json.hpp"
#include "base/printable.hpp"

using namespace attnjit;
using base::Json;

namespace {

std::string nested(std::size_t depth) {
  return std::string(depth, '[') + '1' + std::string(depth, ']');
}

std::string refusal(const std::string& text) {
  try {
    base::parse_json(text);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kInvalidEnvironment);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("JSON nests as deep as every thread's stack bears, and no deeper") {
  const auto most = std::size_t{base::kMaxJsonDepth};
  CHECK(base::parse_json(nested(most)).is_array());
  CHECK(refusal(nested(most + 1)).find("levels of brackets") != std::string::npos);
  CHECK(base::try_parse_json(nested(1'000'000)).is_discarded());
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":[";
  CHECK(base::try_parse_json(objects).is_discarded());
}

TEST_CASE("two members of one name are refused, in one object alone") {
  CHECK(refusal(R"({"a": {"b": 1, "c": [{"d": 2}], "b": 3}})").find("two members \"b\"") !=
        std::string::npos);
  CHECK_FALSE(refusal(R"({"a": 1, "\u0061": 2})").empty());
  CHECK(refusal(R"({"a": {"a": 1}, "b": [{"a": 1}, {"a": 2}]})").empty());
}

TEST_CASE("what is no JSON is refused in a line that says where, however long the text") {
  CHECK(refusal("{\"a\": x}").find("column 7") != std::string::npos);
  CHECK(refusal("1e999").find("1e999") != std::string::npos);
  CHECK(refusal('"' + std::string(1'000'000, 'a')).size() < 400);
  CHECK(base::try_parse_json("\"a\xff\"").is_discarded());
}

TEST_CASE("a message repeats the beginning of a value, in characters that print") {
  CHECK(base::show_json(Json({1, 2})) == "[1,2]");
  CHECK(base::show_json(Json(std::string(1000, 'a'))) == '"' + std::string(99, 'a') + "...");
  CHECK(base::excerpt("a\x1b[2J\n\x7f") == "a\\x1b[2J\\x0a\\x7f");
  CHECK(base::excerpt("\xc2\x9b"
                      "2J") == "\\x9b2J");
  CHECK(base::excerpt("\xc3\xa4\xc3\xa4", 3) == "\xc3\xa4...");
  CHECK(base::excerpt("\xc3\xa4\xc3\xa4", 4) == "\xc3\xa4\xc3\xa4");
  try {
    base::from_json_value<int>(Json(std::string(1'000'000, 'a')), "number");
    FAIL_CHECK("a text was taken for a number");
  } catch (const Error& error) {
    CHECK(std::string(error.what()).size() < 250);
  }
}
