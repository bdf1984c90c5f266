#pragma once
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

namespace attnjit::test {

inline constexpr unsigned kHangLimit = 60;  // seconds

/// Starts `body` in a child of fork(), which ends with status 0 where `body` returns true and 1
/// where it returns false or throws. An alarm ends one that hangs.
template <class Body>
pid_t start_child(const Body& body) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::alarm(kHangLimit);
  bool good = false;
  try {
    good = body();
  } catch (...) {
  }
  ::_exit(good ? 0 : 1);
}

/// Waits for a child's end; whether its status was 0.
inline bool succeeded(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status == 0;
}

/// Whether `body` returns true in a child of fork().
template <class Body>
bool true_in_child(const Body& body) {
  return succeeded(start_child(body));
}

}  // namespace attnjit::test
