#include "compiler/saved_files.hpp"

#include <fmt/format.h>

#include <span>
#include <system_error>

#include "base/file.hpp"

namespace attnjit::compiler {

SavedFiles::SavedFiles(const std::filesystem::path& directory, const std::string& stem)
    : stem_(directory / stem) {
  std::error_code ignored;  // the first write reports a directory that cannot be made
  std::filesystem::create_directories(directory, ignored);
}

void SavedFiles::write(std::string_view suffix, std::string_view text) {
  const std::filesystem::path target = path(suffix);
  const auto result =
      base::write_file_atomic(target, target.parent_path(), std::as_bytes(std::span(text)));
  if (!result.ok()) trouble_ = fmt::format("{}: {}", target.string(), result.message());
}

std::filesystem::path SavedFiles::path(std::string_view suffix) const {
  std::filesystem::path result = stem_;
  result += suffix;
  return result;
}

}  // namespace attnjit::compiler
