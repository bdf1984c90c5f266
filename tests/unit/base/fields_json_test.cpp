// JSON of structs that list their members: tags, and names of versions before.
#include "base/fields_json.hpp"

#include <doctest/doctest.h>

#include <array>
#include <string>
#include <string_view>

#include "attnjit/error.hpp"

using namespace attnjit;
using base::Json;

namespace base_fields_json_test {

enum class Form { kRound, kSquare };

// Without corners where it is round.
struct Shape {
  Form form = Form::kRound;
  int size = 0, corners = 0;
  bool operator==(const Shape&) const = default;
};
constexpr auto fields(const Shape*) {
  return base::fields_of<Shape>(base::Field{"form", &Shape::form},
                                base::Field{"size", &Shape::size},
                                base::Field{"corners", &Shape::corners});
}
constexpr bool lacks(const Shape& shape, std::string_view member) {
  return shape.form == Form::kRound && member == "corners";
}
constexpr std::array<base::Renamed, 1> renamed(const Shape*) { return {{{"edges", "corners"}}}; }

}  // namespace base_fields_json_test

template <>
struct attnjit::base::Words<base_fields_json_test::Form> {
  using enum base_fields_json_test::Form;
  static constexpr Word<base_fields_json_test::Form> kAll[] = {{"round", kRound},
                                                               {"square", kSquare}};
  static constexpr Renamed kRenamed[] = {{"circle", "round"}};
};

namespace base_fields_json_test {
namespace {

Shape patched(const Shape& shape, const char* json) {
  return base::patched(shape, base::parse_patch<Shape>(Json::parse(json), "shape"));
}
std::string refusal(const char* json) {
  try {
    base::from_json_value<Shape>(Json::parse(json), "shape");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}
std::string patch_refusal(const char* json) {
  try {
    patched({}, json);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

constexpr Shape kSquare{Form::kSquare, 5, 4};

}  // namespace

TEST_CASE("JSON names no member that a tag leaves out, and needs every other") {
  CHECK(base::to_json_value(kSquare) == Json::parse(R"({"form":"square","size":5,"corners":4})"));
  CHECK(base::to_json_value(Shape{.size = 5}) == Json::parse(R"({"form":"round","size":5})"));
  for (const Shape& shape : {kSquare, Shape{.size = 5}}) {
    CHECK(base::from_json_value<Shape>(base::to_json_value(shape), "shape") == shape);
  }
  CHECK(refusal(R"({"form": "round", "size": 5, "corners": 4})").find("no member \"corners\"") !=
        std::string::npos);
  CHECK(refusal(R"({"form": "square", "size": 5})").find("a member \"corners\"") !=
        std::string::npos);
}

TEST_CASE("a patch sets the tag first, whatever its place, and drops what that leaves out") {
  CHECK(patched(kSquare, R"({"form": "round"})") == Shape{.size = 5});
  CHECK(patched(kSquare, R"({"size": 6})") == Shape{Form::kSquare, 6, 4});
  CHECK(patched({}, R"({"corners": 3, "form": "square"})") == Shape{Form::kSquare, 0, 3});
  // Left to the rules of the struct, which name it.
  CHECK(patched(kSquare, R"({"corners": 3, "form": "round"})").corners == 3);
}

TEST_CASE("a name of a version before is refused with the one that stands for it now") {
  CHECK(patch_refusal(R"({"edges": 4})") == "shape: \"edges\" is called corners now");
  CHECK(refusal(R"({"form": "square", "size": 5, "edges": 4})") ==
        "shape: \"edges\" is called corners now");
  CHECK(patch_refusal(R"({"form": "circle"})").find("expected \"round\", its name now") !=
        std::string::npos);
  CHECK(patch_refusal(R"({"sides": 4})") ==
        "shape: unknown member \"sides\"; expected one of form, size, corners");
}

}  // namespace base_fields_json_test
