#pragma once
#include <CLI/App.hpp>

#include "cli/input/problem_flags.hpp"

namespace attnjit::cli {

/// Adds the flags that describe one problem to `verb`, which reads them into `flags`.
void add_problem_flags(CLI::App& verb, ProblemFlags& flags);

}  // namespace attnjit::cli
