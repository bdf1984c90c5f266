#pragma once
#include <cstddef>
#include <string>
#include <vector>

namespace attnjit::cli {

/// Columns of a problem's name, at most, in lines that are printed one by one.
inline constexpr std::size_t kNameWidth = 56;

/// Text in columns. The first column gives way where a line would be wider than `kMaxWidth`.
class Table {
 public:
  static constexpr std::size_t kMaxWidth = 138;

  struct Column {
    std::string title;
    bool right = false;  ///< numbers
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// One cell per column. Control characters are written as "\x1b".
  void add(std::vector<std::string> cells);

  /// Title line, rule and rows, a '\n' between them and none at the end.
  std::string text() const;

 private:
  std::vector<std::size_t> widths() const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

/// "512 B", "12.3 KiB", "1.5 GiB".
std::string human_bytes(double bytes);

}  // namespace attnjit::cli
