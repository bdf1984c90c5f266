#pragma once
#include <stdexcept>
#include <string>

#include "attnjit/export.h"

namespace attnjit::inline ATTNJIT_CPP_VERSION {

/// The kind of a failure, as far as a caller can act on it.
enum class ErrorKind {
  kInvalidProblem,      ///< a tensor or option breaks a rule of docs/reference/semantics.md
  kInvalidEnvironment,  ///< a variable or file holds a value outside its list
  kUnsupported,         ///< an architecture or feature that this build cannot serve
  kNoCompiler,          ///< NVRTC is missing or unusable
  kCompile,             ///< NVRTC refused a generated kernel; the message holds the log
  kNoDevice,            ///< no libcuda, no GPU, or the wrong device is current
  kCuda,                ///< a CUDA driver call failed
  kCache,               ///< a cache cannot be used as asked, or lacks what is required
  kInternal,            ///< a broken invariant: a bug of this library
};

/// The only exception that attnjit throws on purpose. what() names what, where and what to do.
class ATTNJIT_EXPORT Error : public std::runtime_error {
 public:
  /// An error of `kind` whose what() is `message`.
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  /// The kind of a failure, as far as a caller can act on it.
  ErrorKind kind() const noexcept { return kind_; }

 private:
  ErrorKind kind_;
};

}  // namespace attnjit::inline ATTNJIT_CPP_VERSION
