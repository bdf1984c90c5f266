#pragma once
#include <cstddef>
#include <span>
#include <string>

namespace attnjit::compiler {

/// A shared library that is mapped into this process, by the handle that dlopen() gave.
struct MappedLibrary {
  std::string path;
  std::string build_id;  ///< the bytes of its GNU build id as hexadecimal digits, or empty
};

MappedLibrary inspect_library(void* handle);

/// The build id, as above, among the notes of a segment with that alignment.
std::string find_build_id(std::span<const char> notes, std::size_t alignment);

}  // namespace attnjit::compiler
