#pragma once
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/json_fwd.hpp"
#include "instance/problem_spec.hpp"

namespace attnjit::cli {

/// One value of a member of a manifest entry: how reports show it, and what it does to a problem.
struct MemberValue {
  std::string text;
  std::function<void(instance::ProblemSpec&)> apply;
};

/// A member that shapes the problem. A manifest may hold one value of it or a list of values.
struct Member {
  std::string_view name;
  bool required;
  bool pair;                 ///< a value is itself an array of numbers
  std::string_view allowed;  ///< completes "expected ..."
  std::optional<MemberValue> (*parse)(const base::Json& value);  ///< nullopt: not allowed
  bool of_backward = false;                                      ///< says nothing about a forward
};

/// All of them, in the order in which they are applied.
std::span<const Member> members();

}  // namespace attnjit::cli
