#pragma once
#include <filesystem>
#include <string>
#include <string_view>

namespace attnjit::compiler {

/// Files that one compile leaves for a person to read, as STEM.cu, STEM.log and so on.
class SavedFiles {
 public:
  /// Makes the directory if it is not there.
  SavedFiles(const std::filesystem::path& directory, const std::string& stem);

  /// Writes one file. A failure is kept in trouble(); it never throws.
  void write(std::string_view suffix, std::string_view text);

  /// Path of the file with `suffix`, whether or not it could be written.
  std::filesystem::path path(std::string_view suffix) const;

  /// Why a file could not be written, or empty.
  const std::string& trouble() const { return trouble_; }

 private:
  std::filesystem::path stem_;
  std::string trouble_;
};

}  // namespace attnjit::compiler
