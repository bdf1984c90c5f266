#pragma once
#include <optional>
#include <string>

#include "problem/manifest_line.hpp"
#include "runtime/load/engine.hpp"

/// The verdict on kernels of Path::kWgmma: a compiler that serialises their products, or spills in
/// their main loop, leaves them right and slower than the portable ones. It is read from the facts
/// that are kept with each entry, so it goes wherever the entry goes.
namespace attnjit::runtime {

/// Whether a kernel may be compiled to know of it.
enum class Compiling { kAllowed, kForbidden };

/// The reason against a wgmma kernel of `facts`, such as "was serialised by NVRTC 13.0.88 (C7511)",
/// or nullopt.
std::optional<std::string> why_slow(const compiler::Facts& facts);

/// The reason against a wgmma kernel of `spec`, such as "wgmma q128 kv128 s2 was serialised by
/// NVRTC 13.0.88 (C7511)"; nullopt where all are sound or there is none. With Compiling::kAllowed
/// the kernels of `spec` are compiled where need be; else a kernel that is in no bundle and not on
/// disk counts as sound. `problem` is for messages.
template <class Spec>
std::optional<std::string> why_slow(Engine& engine, const Spec& spec, const codegen::Arch& arch,
                                    const problem::ProblemText& problem, Compiling compiling);

}  // namespace attnjit::runtime
