// Writes tests/golden anew: what the library generates today becomes what is expected.
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "golden_problems.hpp"

int main() {
  const std::filesystem::path directory = ATTNJIT_SOURCE_DIR "/tests/golden";
  const auto files = attnjit::test::golden_files();
  for (const char* folder : {"stubs", "formulas"}) {
    std::filesystem::remove_all(directory / folder);
    std::filesystem::create_directory(directory / folder);
  }
  for (const auto& [name, text] : files) {
    std::ofstream file(directory / name, std::ios::binary);
    file << text;
    if (!file.flush()) {
      std::fprintf(stderr, "cannot write %s\n", (directory / name).c_str());
      return 1;
    }
  }
  std::printf("%s: %zu files\n", directory.c_str(), files.size());
}
