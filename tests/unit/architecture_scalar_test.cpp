// CONTRIBUTING.md lists the files that a scalar feature is added to, by the example of softcap.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

namespace {

namespace fs = std::filesystem;

const fs::path kSources = ATTNJIT_SOURCE_DIR;

std::string text_of(const fs::path& file) {
  std::ifstream stream(file);
  REQUIRE_MESSAGE(stream.good(), "cannot read ", file.string());
  return {std::istreambuf_iterator<char>(stream), {}};
}

// Files in backticks of the section's table.
std::set<std::string> listed() {
  const std::string text = text_of(kSources / "CONTRIBUTING.md");
  const std::size_t begin = text.find("## How to add a scalar feature");
  REQUIRE(begin != std::string::npos);
  const std::string section = text.substr(begin, text.find("\n## ", begin + 1) - begin);
  std::set<std::string> files;
  const std::regex pattern(R"(`((?:src|include|templates|configs|python)/[\w/.]+)`)");
  for (auto at = std::sregex_iterator(section.begin(), section.end(), pattern);
       at != std::sregex_iterator(); ++at) {
    files.insert((*at)[1]);
  }
  return files;
}

bool names_softcap(const fs::path& file) {
  const std::string text = text_of(file);
  return text.find("softcap") != std::string::npos || text.find("Softcap") != std::string::npos;
}

}  // namespace

TEST_CASE("CONTRIBUTING.md lists every file that a scalar feature is added to") {
  const std::set<std::string> files = listed();
  CHECK(files.size() > 10);
  for (const std::string& file : files) {
    CHECK_MESSAGE(names_softcap(kSources / file), file, " is listed and does not say softcap");
  }
  // What plans say, choices between kernels by their speed, derivatives' error bounds, and
  // functions of other libraries' names ask for it besides.
  const std::set<std::string> others = {"src/cli/work/expression_facts.cpp",
                                        "src/codegen/backward_tunables.cpp",
                                        "src/reference/backward.hpp",
                                        "src/reference/operand_gradient.cpp",
                                        "src/reference/plane_gradients.cpp",
                                        "src/runtime/load/wgmma_verdict.cpp",
                                        "src/tuner/traits.cpp",
                                        "src/tuner/traits.hpp",
                                        "python/attnjit/_flash_attn.py",
                                        "python/attnjit/_flash_dmattn.py",
                                        "python/attnjit/hf.py"};
  for (const char* directory : {"src", "include", "python/attnjit", "python/module"}) {
    for (const auto& entry : fs::recursive_directory_iterator(kSources / directory)) {
      const std::string extension = entry.path().extension().string();
      const bool is_source =
          extension == ".cpp" || extension == ".hpp" || extension == ".h" || extension == ".py";
      if (!entry.is_regular_file() || !is_source || !names_softcap(entry.path())) continue;
      const std::string file = fs::relative(entry.path(), kSources).generic_string();
      CHECK_MESSAGE(files.contains(file) + others.contains(file) == 1, file,
                    " says softcap; list it in CONTRIBUTING.md or here");
    }
  }
}
