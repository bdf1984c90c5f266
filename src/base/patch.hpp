#pragma once
#include <functional>
#include <vector>

namespace attnjit::base {

/// Members of a struct to be set, and their values.
template <class T>
using Patch = std::vector<std::function<void(T&)>>;

template <class T>
T patched(T object, const Patch<T>& patch) {
  for (const auto& set : patch) set(object);
  return object;
}

}  // namespace attnjit::base
