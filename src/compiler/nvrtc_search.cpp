#include "compiler/nvrtc_search.hpp"

#include <filesystem>

namespace attnjit::compiler {
namespace {

constexpr const char* kSonames[] = {"libnvrtc.so.13", "libnvrtc.so.12"};
constexpr const char* kSystemDirectories[] = {"/usr/local/cuda/lib64",
                                              "/usr/local/cuda/targets/x86_64-linux/lib",
                                              "/usr/local/cuda/targets/sbsa-linux/lib"};

}  // namespace

std::vector<NvrtcCandidate> candidates(const NvrtcSearch& search) {
  if (!search.explicit_path.empty()) return {{search.explicit_path}};
  std::vector<NvrtcCandidate> list;
  // A copy that the process already uses, such as PyTorch's, spares 100 MB and keeps the number
  // of NVRTC versions in one process at one.
  for (const char* soname : kSonames) list.push_back({soname, true});
  const auto add_directory = [&](const std::filesystem::path& directory) {
    for (const char* soname : kSonames) list.push_back({(directory / soname).string()});
  };
  for (const auto& directory : search.directories) add_directory(directory);
  for (const char* soname : kSonames) list.push_back({soname});
  for (const char* directory : kSystemDirectories) add_directory(directory);
  return list;
}

}  // namespace attnjit::compiler
