#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "cache/bundle_writer.hpp"
#include "cli/input/cases.hpp"
#include "cli/work/compile_sweep.hpp"
#include "cli/work/session.hpp"

namespace attnjit::cli {

/// Adds every usable kernel and tuning record of the cache directory for `archs`, or for all
/// architectures where that is empty. Of a kernel that several compilers made, this machine's is
/// taken, else the first by name. Returns the entries that cannot be used, and why.
std::vector<std::string> add_everything(cache::BundleWriter& writer,
                                        const std::vector<std::string>& archs, Session& session);

/// Adds the kernels of `sweep`, which look_up_all() found.
void add_kernels(cache::BundleWriter& writer, const Sweep& sweep, Session& session);

/// Adds the tuning records that calls of `cases` on devices of `archs` use.
void add_records(cache::BundleWriter& writer, const std::vector<Case>& cases,
                 const std::vector<const codegen::Arch*>& archs, Session& session);

}  // namespace attnjit::cli
