#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <sstream>
#include <string>

#include "golden/golden_problems.hpp"

namespace fs = std::filesystem;

namespace {

std::optional<std::string> read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// The first line in which two texts differ, both ways.
std::string first_difference(const std::string& expected, const std::string& actual) {
  std::istringstream a(expected), b(actual);
  for (int number = 1;; ++number) {
    std::string left, right;
    const bool has_left = static_cast<bool>(std::getline(a, left));
    const bool has_right = static_cast<bool>(std::getline(b, right));
    if (!has_left && !has_right) return "they differ in line ends only";
    if (has_left == has_right && left == right) continue;
    return fmt::format("line {}\n  kept:      {}\n  generated: {}", number,
                       has_left ? left : "(end)", has_right ? right : "(end)");
  }
}

}  // namespace

TEST_CASE("the sources of well-known problems are those in tests/golden") {
  const fs::path directory = ATTNJIT_SOURCE_DIR "/tests/golden";
  constexpr const char* kAdvice = "\nIf it is meant: scripts/update-golden, and read the diff.";
  const auto files = attnjit::test::golden_files();
  CHECK(files.size() >= 20);
  for (const auto& [name, text] : files) {
    const auto kept = read(directory / name);
    CHECK_MESSAGE(kept.has_value(), name, " is not there", kAdvice);
    if (!kept) continue;
    const bool same = *kept == text;
    CHECK_MESSAGE(same, name, " differs in ", first_difference(*kept, text), kAdvice);
  }
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    if (entry.path().extension() != ".cu") continue;
    CHECK_MESSAGE(files.contains(entry.path().lexically_relative(directory).string()),
                  entry.path().string(), " belongs to no problem", kAdvice);
  }
}
