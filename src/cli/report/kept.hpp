#pragma once
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/environment.hpp"
#include "cli/report/console.hpp"
#include "cli/report/exit_code.hpp"

namespace attnjit::cli {

/// The code of a verb that exists to keep things, by how many are there afterwards and how many are
/// not: kDone where nothing is missing, kFailure where all is, else kSomeFailed.
ExitCode kept_code(std::size_t there, std::size_t missing);

/// The things that a verb was to put on disk: how many are there, and why the rest is not.
class Kept {
 public:
  /// `why_not` nullopt: it is there.
  void add(const std::optional<std::string>& why_not);

  std::size_t kept() const { return kept_; }
  std::size_t missing() const { return missing_; }

  ExitCode code() const { return kept_code(kept_, missing_); }

  /// Says each reason once, as an error; `what` are the things ("kernels are").
  void report(std::string_view what, Console& console) const;

 private:
  std::size_t kept_ = 0;
  std::size_t missing_ = 0;
  std::map<std::string, std::size_t> reasons_;
};

/// Throws the usage error of a verb that keeps things, or works on what was kept, where
/// ATTNJIT_CACHE_DIR=0.
void expect_cache(const base::Environment& environment, std::string_view verb);

}  // namespace attnjit::cli
