#include "compiler/nvrtc.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <filesystem>

#include "attnjit/error.hpp"
#include "compiler/build_id.hpp"
#include "compiler/elf_file.hpp"
#include "compiler/nvrtc_identity.hpp"

namespace attnjit::compiler {
namespace {

constexpr const char* kAdvice =
    "Install NVRTC of CUDA 12.4 or later (pip install nvidia-cuda-nvrtc, or the cuda-nvrtc "
    "package of the system), or set ATTNJIT_NVRTC to the path of its libnvrtc.so.";

template <class Function>
void resolve(void* library, Function& function, const char* name) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) {
    throw Error(ErrorKind::kNoCompiler,
                fmt::format("attnjit cannot use it as NVRTC, because it lacks {}", name));
  }
}

NvrtcApi resolve_api(void* library) {
  NvrtcApi api;
  resolve(library, api.version, "nvrtcVersion");
  resolve(library, api.get_error_string, "nvrtcGetErrorString");
  resolve(library, api.get_num_supported_archs, "nvrtcGetNumSupportedArchs");
  resolve(library, api.get_supported_archs, "nvrtcGetSupportedArchs");
  resolve(library, api.create_program, "nvrtcCreateProgram");
  resolve(library, api.destroy_program, "nvrtcDestroyProgram");
  resolve(library, api.compile_program, "nvrtcCompileProgram");
  resolve(library, api.get_log_size, "nvrtcGetProgramLogSize");
  resolve(library, api.get_log, "nvrtcGetProgramLog");
  resolve(library, api.get_cubin_size, "nvrtcGetCUBINSize");
  resolve(library, api.get_cubin, "nvrtcGetCUBIN");
  resolve(library, api.get_ptx_size, "nvrtcGetPTXSize");
  resolve(library, api.get_ptx, "nvrtcGetPTX");
  return api;
}

bool version_is_served(int major, int minor) { return major == 13 || (major == 12 && minor >= 4); }

std::vector<int> read_archs(const NvrtcApi& api) {
  int count = 0;
  if (api.get_num_supported_archs(&count) != NVRTC_SUCCESS) return {};
  std::vector<int> archs(static_cast<std::size_t>(count));
  if (api.get_supported_archs(archs.data()) != NVRTC_SUCCESS) return {};
  return archs;
}

/// Maps the builtins library that belongs to this libnvrtc. NVRTC itself asks the loader for it by
/// name on the first compile, which finds nothing or another release's copy when the directory is
/// not on the loader's path; once mapped, the name resolves to this one.
MappedLibrary map_builtins(const std::string& nvrtc_path, const std::string& version) {
  const std::string soname = "libnvrtc-builtins.so." + version;
  const auto beside = std::filesystem::path(nvrtc_path).parent_path() / soname;
  void* handle = dlopen(beside.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) handle = dlopen(soname.c_str(), RTLD_NOW | RTLD_LOCAL);
  return handle == nullptr ? MappedLibrary{} : inspect_library(handle);
}

/// A name of a library's bytes.
std::string identity(const MappedLibrary& library, const std::string& version) {
  if (!library.build_id.empty()) return library.build_id;
  return id_of_file(library.path).value_or("version " + version);
}

}  // namespace

Nvrtc::Nvrtc(const NvrtcSearch& search) {
  std::string tried;
  for (const NvrtcCandidate& candidate : candidates(search)) {
    void* handle = dlopen(candidate.name.c_str(),
                          RTLD_NOW | RTLD_LOCAL | (candidate.mapped_only ? RTLD_NOLOAD : 0));
    if (handle == nullptr) {
      const char* reason = dlerror();
      // "Not mapped yet" is no news, and dlerror() says nothing about it.
      if (!candidate.mapped_only) {
        tried += fmt::format("\n  {}: {}", candidate.name, reason == nullptr ? "failed" : reason);
      }
      continue;
    }
    try {
      use(handle);
      return;
    } catch (const Error& error) {
      tried += fmt::format("\n  {}: {}", inspect_library(handle).path, error.what());
    }
  }
  throw Error(
      ErrorKind::kNoCompiler,
      fmt::format("cannot open NVRTC, the CUDA run-time compiler. {}\nTried:{}", kAdvice, tried));
}

void Nvrtc::use(void* library) {
  api_ = resolve_api(library);
  if (api_.version(&major_, &minor_) != NVRTC_SUCCESS || !version_is_served(major_, minor_)) {
    throw Error(
        ErrorKind::kNoCompiler,
        fmt::format("it is version {}; attnjit needs 12.4 or later of 12, or 13", version()));
  }
  const MappedLibrary self = inspect_library(library);
  path_ = self.path;
  archs_ = read_archs(api_);
  id_ = nvrtc_id(identity(self, version()), identity(map_builtins(path_, version()), version()));
}

std::string Nvrtc::version() const { return fmt::format("{}.{}", major_, minor_); }

void Nvrtc::check_arch(const std::string& arch) const {
  int number = 0;
  bool known = false;
  if (arch.starts_with("sm_")) {
    const char* end = arch.data() + arch.size();
    const auto [rest, error] = std::from_chars(arch.data() + 3, end, number);
    const std::string_view suffix(rest, static_cast<std::size_t>(end - rest));
    known = error == std::errc{} &&
            (suffix.empty() || (suffix == "a" && number >= 90) || (suffix == "f" && number >= 100));
  }
  for (const int supported : archs_) {
    if (known && supported == number) return;
  }
  throw Error(
      ErrorKind::kUnsupported,
      fmt::format("NVRTC {} ({}) cannot compile for '{}'; it knows sm_{}. A newer GPU needs "
                  "a newer NVRTC: set ATTNJIT_NVRTC to its path",
                  version(), path_, arch, fmt::join(archs_, ", sm_")));
}

}  // namespace attnjit::compiler
