#include "cli/report/kept.hpp"

namespace attnjit::cli {

ExitCode kept_code(std::size_t there, std::size_t missing) {
  if (missing == 0) return ExitCode::kDone;
  return there == 0 ? ExitCode::kFailure : ExitCode::kSomeFailed;
}

void Kept::add(const std::optional<std::string>& why_not) {
  if (!why_not) {
    ++kept_;
    return;
  }
  ++missing_;
  ++reasons_[*why_not];
}

void Kept::report(std::string_view what, Console& console) const {
  for (const auto& [reason, count] : reasons_) {
    console.error(
        fmt::format("{} of {} {} not on disk: {}", count, kept_ + missing_, what, reason));
  }
}

void expect_cache(const base::Environment& environment, std::string_view verb) {
  if (environment.cache_directory || environment.cache_trouble) return;
  usage_error(
      "{} works on the cache directory, and ATTNJIT_CACHE_DIR=0 keeps things in memory only; set "
      "it to a directory, or unset it",
      verb);
}

}  // namespace attnjit::cli
