// Feeds every file of the directories that are named to a fuzz target, as libFuzzer would.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "fuzz_target.hpp"

int main(int argc, char** argv) {
  int files = 0;
  for (int i = 1; i < argc; ++i) {
    for (const auto& item : std::filesystem::directory_iterator(argv[i])) {
      std::ifstream stream(item.path(), std::ios::binary);
      const std::string bytes(std::istreambuf_iterator<char>(stream), {});
      std::printf("%s\n", item.path().c_str());
      std::fflush(stdout);  // a crash is the last one's
      LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
      ++files;
    }
  }
  return files > 0 ? 0 : 1;
}
