#pragma once
#include <functional>
#include <string>
#include <vector>

namespace attnjit::test {

/// A misfortune of one call of the C library that works on files.
struct FileFault {
  enum class Kind { kError, kShort, kKill };

  Kind kind = Kind::kError;
  int error = 0;  ///< errno of kError; close() closes nevertheless, as Linux does

  // kShort halves what a read or write transfers; kKill ends the process at once (SIGKILL).
};

/// The names of the calls ("open", "fsync") that `work` makes on the calling thread, in order; call
/// number `at`, from 0, meets with `fault`. None does where `at` is too large. The program that
/// holds file_calls.cpp defines these functions itself, in front of the C library's; it cannot be
/// built with a sanitizer, which does the same.
std::vector<std::string> file_calls(const std::function<void()>& work, std::size_t at = -1,
                                    const FileFault& fault = {});

}  // namespace attnjit::test
