#pragma once
#include <filesystem>
#include <string>

namespace attnjit::cli {

/// Whether files can be kept in a directory, found out without creating anything.
struct DirectoryReport {
  bool usable = false;
  std::string text;     ///< path, owner and state, for a report
  std::string trouble;  ///< why it is not usable
};

/// `path` need not exist: then what counts is whether it could be created.
DirectoryReport inspect_directory(const std::filesystem::path& path);

}  // namespace attnjit::cli
