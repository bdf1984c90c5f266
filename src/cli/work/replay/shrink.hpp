#pragma once
#include <filesystem>
#include <string>

#include "cli/work/replay/replayed_call.hpp"

namespace attnjit::cli {

/// The smallest call that was found to fail.
struct SmallestCall {
  std::string problem;         ///< described
  std::string manifest_line;   ///< as attnjit run reads it
  int tried = 0;               ///< calls that were run for it
  std::filesystem::path file;  ///< that holds it; empty: none
};

/// Shrinks the call of `file`, which fails on `runner`. The one that is left is written to the
/// folder `output`, unless that is empty. Throws as replay_call() does, and
/// Error(kInvalidEnvironment) where it cannot be written.
SmallestCall find_smallest(const dump::CallFile& file, CallRunner& runner,
                           const KernelChoice& choice, const std::string& output, unsigned jobs);

}  // namespace attnjit::cli
