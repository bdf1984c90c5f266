#pragma once
#include <cstdint>
#include <functional>

namespace attnjit::test {

/// Calls of the calling thread into the C library.
struct HostCalls {
  std::uint64_t allocations = 0;   ///< malloc and its kin; operator new ends there
  std::uint64_t locks = 0;         ///< mutexes and readers-writer locks, tries included
  std::uint64_t environments = 0;  ///< getenv

  bool operator==(const HostCalls&) const = default;
};

/// Those that `work` makes. The program that holds host_calls.cpp defines these functions itself,
/// in front of the C library's; it cannot be built with a sanitizer, which does the same.
HostCalls count_host_calls(const std::function<void()>& work);

/// Whether `work` makes a system call. It runs in a child process that the kernel kills at the
/// first one. Throws std::runtime_error where the kernel cannot do that.
bool makes_system_calls(const std::function<void()>& work);

}  // namespace attnjit::test
