#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "attnjit/error.hpp"

/// The entry of a fuzz target: reads `size` bytes as a file of its kind. A fault is a crash, or
/// what a sanitizer reports; an attnjit::Error is not.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace attnjit::fuzz {

inline std::string_view text(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// Ends the program unless `holds`.
inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "it does not hold that %s\n", what);
  std::abort();
}

/// Runs `read`, which may throw an Error of a short message and nothing else.
template <class Read>
void expect_error_or_value(Read read) {
  try {
    read();
  } catch (const Error& error) {
    require(std::string_view(error.what()).size() < 4000, "messages are short");
  }
}

}  // namespace attnjit::fuzz
