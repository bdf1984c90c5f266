#pragma once
#include <optional>
#include <string>
#include <vector>

#include "cli/input/problem_flags.hpp"
#include "cli/work/session.hpp"
#include "codegen/arch.hpp"
#include "codegen/tunables.hpp"

namespace attnjit::cli {

/// The flags that say what to work on.
struct WorkloadOptions {
  ProblemFlags problem;
  std::string manifest;  ///< a file that takes the place of the problem's flags
  std::vector<std::string> archs;
  std::string config;  ///< a JSON object or the name of a file that holds one; may be empty
  std::string path = "auto";
};

struct Workload {
  std::vector<Case> cases;
  std::vector<std::string> archs;  ///< of the flags, or else of the manifest; may be empty
  bool from_manifest = false;
};

/// The problem of the flags, or those of the manifest; notes what is skipped there on `console`.
Workload load_workload(const WorkloadOptions& options, Console& console);

/// The architectures of `workload`, or else that of the first GPU. Throws Error(kUnsupported) for
/// an unknown one, Error(kNoDevice) where none is named and there is no GPU.
std::vector<const codegen::Arch*> choose_archs(const Workload& workload, Session& session);

/// The architectures of `workload`, for a `verb` that does not ask the machine for one. Throws a
/// usage error where none is named, Error(kUnsupported) for an unknown one.
std::vector<const codegen::Arch*> named_archs(const Workload& workload, const char* verb);

/// The path that --path asks for; nullopt for auto.
std::optional<codegen::Path> read_path(const std::string& flag);

/// The JSON text that --config stands for; nullopt without the flag.
std::optional<std::string> read_config(const std::string& flag);

}  // namespace attnjit::cli
