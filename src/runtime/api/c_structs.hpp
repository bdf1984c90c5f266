#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <stdexcept>

namespace attnjit::runtime {

/// A C caller's mistake that the C++ API cannot make.
class InvalidArgument : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

/// `pointer`, unless it is null. `what` is the name of the argument.
template <class T>
T& not_null(const char* what, T* pointer) {
  if (pointer == nullptr) throw InvalidArgument(fmt::format("{}: is null", what));
  return *pointer;
}

/// No struct of the C API will be larger; a size above is uninitialised memory.
inline constexpr std::size_t kMaxStructSize = 4096;

/// The size that `given` claims. Throws InvalidArgument unless it is from `first`, the size of the
/// struct's first version, to kMaxStructSize.
template <class Struct>
std::size_t struct_size(const char* what, const Struct& given, std::size_t first) {
  if (given.struct_size < first || given.struct_size > kMaxStructSize) {
    throw InvalidArgument(fmt::format("{}: struct_size is {}; expected {}, what its _INIT sets",
                                      what, given.struct_size, sizeof(Struct)));
  }
  return given.struct_size;
}

/// A struct of this version made from one of any version: what it lacks is zero. Throws
/// InvalidArgument as struct_size() does, and when a member that this version lacks is not zero.
template <class Struct>
Struct read_struct(const char* what, const Struct* pointer, std::size_t first) {
  const std::size_t size = struct_size(what, not_null(what, pointer), first);
  const auto* const bytes = reinterpret_cast<const std::byte*>(pointer);
  const auto* const known = bytes + std::min(size, sizeof(Struct));
  const auto unknown =
      std::find_if(known, bytes + size, [](std::byte b) { return b != std::byte{}; });
  if (unknown != bytes + size) {
    throw InvalidArgument(
        fmt::format("{}: byte {} is set, and this library ({}) knows {}; update the library", what,
                    unknown - bytes, ATTNJIT_VERSION, sizeof(Struct)));
  }
  Struct result{};
  std::memcpy(&result, bytes, std::min(size, sizeof(Struct)));
  return result;
}

}  // namespace attnjit::runtime
