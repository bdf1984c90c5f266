#pragma once
#include <cerrno>

namespace attnjit::base {

/// Repeats a system call for as long as signals interrupt it.
template <class Call>
auto uninterrupted(const Call& call) {
  auto result = call();
  while (result == -1 && errno == EINTR) result = call();
  return result;
}

}  // namespace attnjit::base
