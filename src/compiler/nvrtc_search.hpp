#pragma once
#include <string>
#include <vector>

namespace attnjit::compiler {

/// Places to look for libnvrtc in. The caller fills it from the environment.
struct NvrtcSearch {
  std::string explicit_path;             ///< if set, the only file that is tried
  std::vector<std::string> directories;  ///< tried before the system's own places
};

/// A libnvrtc to try, by what dlopen() takes.
struct NvrtcCandidate {
  std::string name;
  bool mapped_only = false;  ///< to be taken only if this process has it already
};

/// The copies to try, in that order: the explicit path alone, or else a copy that is already
/// mapped, the directories, the loader's own search, /usr/local/cuda.
std::vector<NvrtcCandidate> candidates(const NvrtcSearch& search);

}  // namespace attnjit::compiler
