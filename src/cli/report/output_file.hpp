#pragma once
#include <string>
#include <string_view>

namespace attnjit::cli {

/// Puts `bytes` at `path`: readers see the old file or the whole new one, and a full disk leaves
/// the old one. What is no regular file (a pipe, a terminal), or lies in /dev or /proc
/// (/dev/stdout), is written as it is. Throws Error(kCache) where that cannot be done.
void write_file(const std::string& path, std::string_view bytes);

/// Throws Error(kInvalidEnvironment) that names `flag` where write_file() could not begin: for work
/// that takes long before there is something to write.
void expect_writable(std::string_view flag, const std::string& path);

}  // namespace attnjit::cli
