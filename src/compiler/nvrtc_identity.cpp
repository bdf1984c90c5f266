#include "compiler/nvrtc_identity.hpp"

#include <filesystem>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/sha256.hpp"
#include "compiler/elf_file.hpp"
#include "compiler/loader_search.hpp"

namespace attnjit::compiler {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kBuiltins = "libnvrtc-builtins.so.";

/// The file that dlopen(`name`) would map.
std::optional<fs::path> file_of(const std::string& name) {
  if (name.find('/') == name.npos) return find_by_soname(name);
  std::error_code error;
  return fs::exists(name, error) ? std::optional<fs::path>(name) : std::nullopt;
}

/// "13.0" and not "13.0.88", which names the same file.
bool is_release(std::string_view text) {
  const std::size_t dot = text.find('.');
  return dot != text.npos && text.find_first_not_of("0123456789.") == text.npos &&
         text.find('.', dot + 1) == text.npos;
}

/// The one builtins library in `directory`.
std::optional<fs::path> builtins_in(const fs::path& directory) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.starts_with(kBuiltins) &&
        is_release(std::string_view(name).substr(kBuiltins.size()))) {
      found.push_back(it->path());
    }
  }
  return found.size() == 1 ? std::optional(found.front()) : std::nullopt;
}

}  // namespace

std::string nvrtc_id(const std::string& nvrtc, const std::string& builtins) {
  base::Sha256 hash;
  hash.update(nvrtc);
  hash.update("\n");
  hash.update(builtins);
  return base::hex(hash.finish()).substr(0, 8);
}

std::optional<std::string> nvrtc_id_from_files(const NvrtcSearch& search) {
  for (const NvrtcCandidate& candidate : candidates(search)) {
    if (is_mapped(candidate.name)) return std::nullopt;
    const auto path = candidate.mapped_only ? std::nullopt : file_of(candidate.name);
    if (!path) continue;
    const auto builtins = builtins_in(path->parent_path());
    const auto nvrtc_file = id_of_file(*path);
    const auto builtins_file = builtins ? id_of_file(*builtins) : std::nullopt;
    if (!nvrtc_file || !builtins_file) return std::nullopt;
    return nvrtc_id(*nvrtc_file, *builtins_file);
  }
  return std::nullopt;
}

}  // namespace attnjit::compiler
