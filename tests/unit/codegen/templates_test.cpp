#include "codegen/templates.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <string>

#include "attnjit/error.hpp"
#include "unit/template_text.hpp"

using namespace attnjit;
using attnjit::test::code_of;
using attnjit::test::identifiers;
using codegen::flatten;
using codegen::TemplateSet;

namespace {

using Files = std::map<std::string, std::string>;

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

bool is_primitive(std::string_view name) { return name.starts_with("attnjit/ptx/"); }

// The files as they lie in the repository.
Files files_on_disk() {
  const std::filesystem::path root = ATTNJIT_SOURCE_DIR "/templates";
  Files files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    files[entry.path().lexically_relative(root).generic_string()] = {
        std::istreambuf_iterator<char>(file), {}};
  }
  return files;
}

}  // namespace

TEST_CASE("the embedded templates are the files of the repository") {
  Files embedded;
  for (const auto& file : codegen::embedded_templates()) {
    embedded[std::string(file.name)] = file.text;
  }
  const Files disk = files_on_disk();
  CHECK(embedded.size() == disk.size());
  for (const auto& [name, text] : disk) {
    CAPTURE(name);
    REQUIRE(embedded.contains(name));
    CHECK(embedded[name] == text);
  }
}

TEST_CASE("flatten puts each header in once, at its first mention") {
  const TemplateSet templates(Files{
      {"attnjit/a.h", "#pragma once\n#include \"attnjit/c.h\"\nint a;\n"},
      {"attnjit/b.h", "#pragma once\n#include \"attnjit/c.h\"\nint b;"},
      {"attnjit/c.h", "#pragma once\nint c;\n"},
      {"attnjit/unused.h", "int unused;\n"},
  });
  const std::string text = flatten(
      "// title\n#include \"attnjit/a.h\"\n#include \"attnjit/b.h\"\n#include \"attnjit/a.h\"\n"
      "int main;\n",
      templates);
  CHECK(text ==
        "// title\n\n// ---- attnjit/a.h\n\n// ---- attnjit/c.h\nint c;\nint a;\n"
        "\n// ---- attnjit/b.h\nint b;\nint main;\n");
}

TEST_CASE("flatten leaves text without includes as it is") {
  const TemplateSet none{Files{}};
  CHECK(flatten("", none) == "");
  CHECK(flatten("int x;\n\nint y;\n", none) == "int x;\n\nint y;\n");
  CHECK(flatten("// #include \"attnjit/a.h\"\n", none) == "// #include \"attnjit/a.h\"\n");
}

TEST_CASE("headers that include each other do not hang") {
  const TemplateSet templates(Files{{"attnjit/a.h", "#include \"attnjit/b.h\"\nint a;\n"},
                                    {"attnjit/b.h", "#include \"attnjit/a.h\"\nint b;\n"}});
  const std::string text = flatten("#include \"attnjit/a.h\"\n", templates);
  CHECK(count(text, "int a;") == 1);
  CHECK(count(text, "int b;") == 1);
}

TEST_CASE("a missing template is named, with what to do") {
  try {
    flatten("#include \"attnjit/nothing.cuh\"\n", TemplateSet());
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kInvalidEnvironment);
    CHECK(std::string(error.what()).starts_with("template attnjit/nothing.cuh is missing"));
    CHECK(std::string(error.what()).find("ATTNJIT_TEMPLATE_DIR") != std::string::npos);
  }
}

TEST_CASE("primitives come from another folder when one is named, and nothing else does") {
  const TemplateSet templates(Files{
      {"attnjit/loop.cuh", "#include \"attnjit/ptx/math.cuh\"\n#include \"attnjit/tile.cuh\"\n"},
      {"attnjit/tile.cuh", "#include \"attnjit/ptx/math.cuh\"\nint tile;\n"},
      {"attnjit/ptx/math.cuh", "int device;\n"},
      {"attnjit/host/math.cuh", "#include \"attnjit/ptx/vector.cuh\"\nint host;\n"},
      {"attnjit/host/vector.cuh", "int vector;\n"}});
  const std::string text = flatten("#include \"attnjit/loop.cuh\"\n", templates, "attnjit/host/");
  CHECK(count(text, "int host;") == 1);
  CHECK(count(text, "int vector;") == 1);
  CHECK(count(text, "int tile;") == 1);
  CHECK(count(text, "int device;") == 0);
}

TEST_CASE("every template is self-contained: all that it includes is there, and nothing is left") {
  const TemplateSet templates;
  for (const auto& file : codegen::embedded_templates()) {
    CAPTURE(file.name);
    const std::string text = flatten("#include \"" + std::string(file.name) + "\"\n", templates);
    CHECK(count(text, "#include") == 0);
    CHECK(count(text, "#pragma once") == 0);
    CHECK(std::string(file.text).starts_with("#pragma once\n"));
  }
}

TEST_CASE("hardware is touched by primitives only: no asm, no builtin, outside attnjit/ptx/") {
  const std::set<std::string> hardware = {"asm",       "threadIdx", "blockIdx", "blockDim",
                                          "gridDim",   "warpSize",  "clock",    "clock64",
                                          "atomicAdd", "volatile",  "extern"};
  // Function attributes of host-and-device code in types.h, and what tells compilers apart.
  const std::set<std::string> allowed = {"__CUDACC__", "__host__", "__device__", "__forceinline__"};
  std::size_t scanned = 0;
  for (const auto& file : codegen::embedded_templates()) {
    if (is_primitive(file.name)) continue;
    ++scanned;
    for (const std::string& word : identifiers(code_of(std::string(file.text)))) {
      CAPTURE(file.name);
      CAPTURE(word);
      CHECK_FALSE(hardware.contains(word));
      if (word.starts_with("__")) CHECK(allowed.contains(word));
    }
  }
  CHECK(scanned > 10);
}

TEST_CASE("memory is touched by primitives only: no pointer is dereferenced outside attnjit/ptx/") {
  const std::regex declared(R"((?:void|float|auto|T|u?int\d+|Vector16)\s*\*\s*(?:const\s+)?(\w+))");
  const std::regex more(R"(\*(\w+),\s*\*(\w+);)");  // uint16 *k, *v;
  std::size_t pointers = 0;
  for (const auto& file : codegen::embedded_templates()) {
    if (is_primitive(file.name)) continue;
    CAPTURE(file.name);
    const std::string text = code_of(std::string(file.text));
    std::set<std::string> names;
    for (std::sregex_iterator it(text.begin(), text.end(), declared), end; it != end; ++it) {
      names.insert((*it)[1]);
    }
    for (std::sregex_iterator it(text.begin(), text.end(), more), end; it != end; ++it) {
      names.insert({(*it)[1], (*it)[2]});
    }
    pointers += names.size();
    for (const std::string& name : names) {
      CAPTURE(name);
      CHECK_FALSE(std::regex_search(text, std::regex("\\b" + name + "\\s*\\[")));
      CHECK_FALSE(std::regex_search(text, std::regex("[=(,&|;{!?:]\\s*\\*" + name + "\\b[^,;]")));
    }
    CHECK_FALSE(std::regex_search(text, std::regex(R"(\*\s*(reinterpret|static)_cast)")));
  }
  CHECK(pointers > 10);
}
