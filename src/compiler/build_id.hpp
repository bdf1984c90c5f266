#pragma once
#include <string>

namespace attnjit::compiler {

/// A shared library that is mapped into this process, by the handle that dlopen() gave.
struct MappedLibrary {
  std::string path;
  std::string build_id;  ///< the bytes of its GNU build id as hexadecimal digits, or empty
};

MappedLibrary inspect_library(void* handle);

}  // namespace attnjit::compiler
