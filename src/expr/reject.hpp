#pragma once
#include <fmt/format.h>

#include <utility>

#include "attnjit/error.hpp"

namespace attnjit::expr {

/// Throws Error(kInvalidProblem) with a message that is formatted as fmt::format does.
template <class... Args>
[[noreturn]] void reject(fmt::format_string<Args...> text, Args&&... args) {
  throw Error(ErrorKind::kInvalidProblem, fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace attnjit::expr
