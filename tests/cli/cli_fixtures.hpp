#pragma once
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <string_view>

#include "attnjit/error.hpp"
#include "unit/temp_directory.hpp"

namespace attnjit::test {

/// The message of the Error that `body` throws, which must be of that kind.
inline std::string error_of(ErrorKind kind, const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    CHECK_MESSAGE(error.kind() == kind, error.what());
    return error.what();
  }
  FAIL_CHECK("nothing was thrown");
  return "";
}

inline void write_file(const std::filesystem::path& path, std::string_view text) {
  std::ofstream stream(path, std::ios::binary);
  stream << text;
  REQUIRE(stream.flush());
}

inline std::string read_file(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

}  // namespace attnjit::test
