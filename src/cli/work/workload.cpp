#include "cli/work/workload.hpp"

#include <algorithm>

#include "cli/input/manifest.hpp"
#include "cli/input/text_file.hpp"
#include "cli/report/exit_code.hpp"
#include "cuda/device.hpp"

namespace attnjit::cli {
namespace {

// Each once.
std::vector<const codegen::Arch*> find_archs(const std::vector<std::string>& names) {
  std::vector<const codegen::Arch*> archs;
  for (const std::string& name : names) {
    const codegen::Arch* arch = &codegen::find_arch(name);
    if (std::ranges::find(archs, arch) == archs.end()) archs.push_back(arch);
  }
  return archs;
}

}  // namespace

Workload load_workload(const WorkloadOptions& options, Console& console) {
  if (options.manifest.empty()) return {{make_case(options.problem)}, options.archs, false};
  if (options.problem != ProblemFlags{}) {
    usage_error("--manifest {} describes the problems; leave the flags for a problem out",
                options.manifest);
  }
  Manifest manifest = load_manifest(options.manifest);
  for (const std::string& text : manifest.warnings) console.note("attnjit: warning: {}", text);
  return {std::move(manifest.cases), options.archs.empty() ? manifest.archs : options.archs, true};
}

std::vector<const codegen::Arch*> choose_archs(const Workload& workload, Session& session) {
  const auto archs = find_archs(workload.archs);
  if (!archs.empty()) return archs;
  try {
    const auto devices = cuda::devices(session.driver());
    return {&codegen::find_arch(devices.front().arch())};
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kNoDevice) throw;
    throw Error(ErrorKind::kNoDevice,
                "there is no GPU to take the architecture from; add --arch, for instance --arch "
                "sm_90a (attnjit doctor says why there is none)");
  }
}

std::vector<const codegen::Arch*> named_archs(const Workload& workload, const char* verb) {
  if (!workload.archs.empty()) return find_archs(workload.archs);
  usage_error(
      "neither --arch nor the manifest names an architecture; add one, for instance --arch "
      "sm_90a: {} does not ask the GPU of this machine",
      verb);
}

std::optional<codegen::Path> read_path(const std::string& flag) {
  if (flag == "auto") return std::nullopt;
  if (flag == "mma") return codegen::Path::kMma;
  if (flag == "wgmma") return codegen::Path::kWgmma;
  if (flag == "single_tile") return codegen::Path::kSingleTile;
  if (flag == "shared_bias") return codegen::Path::kSharedBias;
  usage_error("--path: '{}'; expected one of auto, mma, wgmma, single_tile, shared_bias", flag);
}

std::optional<std::string> read_config(const std::string& flag) {
  if (flag.empty()) return std::nullopt;
  const std::size_t begin = flag.find_first_not_of(" \t\n");
  if (begin != std::string::npos && flag[begin] == '{') return flag;
  return read_text_file("--config (no JSON object)", flag);
}

}  // namespace attnjit::cli
