#pragma once
#include <nvrtc.h>

#include <string>
#include <vector>

#include "compiler/nvrtc_search.hpp"

namespace attnjit::compiler {

/// The NVRTC entry points that this library calls.
struct NvrtcApi {
  decltype(&nvrtcVersion) version = nullptr;
  decltype(&nvrtcGetErrorString) get_error_string = nullptr;
  decltype(&nvrtcGetNumSupportedArchs) get_num_supported_archs = nullptr;
  decltype(&nvrtcGetSupportedArchs) get_supported_archs = nullptr;
  decltype(&nvrtcCreateProgram) create_program = nullptr;
  decltype(&nvrtcDestroyProgram) destroy_program = nullptr;
  decltype(&nvrtcCompileProgram) compile_program = nullptr;
  decltype(&nvrtcGetProgramLogSize) get_log_size = nullptr;
  decltype(&nvrtcGetProgramLog) get_log = nullptr;
  decltype(&nvrtcGetCUBINSize) get_cubin_size = nullptr;
  decltype(&nvrtcGetCUBIN) get_cubin = nullptr;
  decltype(&nvrtcGetPTXSize) get_ptx_size = nullptr;
  decltype(&nvrtcGetPTX) get_ptx = nullptr;
};

/// An opened libnvrtc, of CUDA 12.4 or later. It stays mapped until the process ends.
class Nvrtc {
 public:
  /// Opens the first usable of candidates(). Throws Error(kNoCompiler) naming everything that was
  /// tried.
  explicit Nvrtc(const NvrtcSearch& search);

  const NvrtcApi& api() const { return api_; }
  const std::string& path() const { return path_; }
  int version_major() const { return major_; }
  int version_minor() const { return minor_; }
  std::string version() const;  ///< "13.0"

  /// nvrtc_id().
  const std::string& id() const { return id_; }

  /// Compute capabilities that this NVRTC compiles for, as 80 or 90.
  const std::vector<int>& supported_archs() const { return archs_; }

  /// Throws Error(kUnsupported) unless `arch` ("sm_90a") is one that this NVRTC compiles for.
  void check_arch(const std::string& arch) const;

 private:
  void use(void* library);  ///< throws Error when this library cannot serve

  NvrtcApi api_;
  std::string path_;
  std::string id_;
  int major_ = 0;
  int minor_ = 0;
  std::vector<int> archs_;
};

}  // namespace attnjit::compiler
