#pragma once
#include <memory>

#include "cuda/library.hpp"
#include "problem/manifest_line.hpp"
#include "runtime/load/engine.hpp"

namespace attnjit::runtime {

/// Loads `entry`, the kernel of `source` that the engine gave, into the current context. A cubin
/// that the driver does not take is compiled again, once; the new one takes its place if the driver
/// takes that, and otherwise nothing is rewritten and Error(kCuda) names driver, architecture and
/// file, in every later call of the process too.
std::unique_ptr<cuda::Library> load_kernel(Engine& engine, const cuda::Driver& driver,
                                           const cache::Entry& entry, const codegen::Source& source,
                                           const codegen::Arch& arch,
                                           const problem::ProblemText& problem);

}  // namespace attnjit::runtime
