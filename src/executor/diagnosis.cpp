#include "executor/diagnosis.hpp"

#include <fmt/format.h>

#include <optional>
#include <sstream>
#include <string_view>

namespace attnjit::executor {
namespace {

/// A line of a flattened source.
struct Place {
  std::string file = "the generated stub";
  std::string text;  // of the line
};

// A file's text continues after the files that it includes, so several files have begun above a
// line: the one that it belongs to is the one whose template holds its text.
Place place_of(int line, const std::string& source, const codegen::TemplateSet& templates) {
  constexpr std::string_view kBegin = "// ---- ";  // which flatten() writes before a file's text
  Place place;
  std::vector<std::string> begun;
  std::istringstream lines(source);
  for (; line > 0 && std::getline(lines, place.text); --line) {
    if (place.text.starts_with(kBegin)) begun.push_back(place.text.substr(kBegin.size()));
  }
  for (const std::string& file : begun) {
    if (templates.text(file).find(place.text) != std::string::npos) place.file = file;
  }
  place.text.erase(0, place.text.find_first_not_of(' '));
  return place;
}

/// The compiler's message of an error.
struct Message {
  int line = 0;
  std::string what;
};

// The first one of `log`: "kernel.cpp:LINE:COLUMN: error: WHAT", or "fatal error".
std::optional<Message> first_error(const std::string& log) {
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t end = line.find("error: ");
    if (end == line.npos) continue;
    std::istringstream place(line.substr(0, end));
    Message message{.what = line.substr(line.find(' ', end) + 1)};
    std::string file;
    if (std::getline(place, file, ':') && place >> message.line) return message;
  }
  return std::nullopt;
}

// The primitive that `what` says is missing; empty if it says something else. g++ writes "'NAME' is
// not a member of 'attnjit::kernel::ptx'", clang++ "no member named 'NAME' in namespace
// 'attnjit::kernel::ptx'".
std::string missing_primitive(const std::string& what) {
  std::istringstream parts(what);
  std::string before, name, between, scope;
  for (std::string* part : {&before, &name, &between, &scope}) std::getline(parts, *part, '\'');
  const bool is_missing = between == " is not a member of " || between == " in namespace ";
  return is_missing && scope.ends_with("ptx") ? name : "";
}

}  // namespace

std::string diagnose(const std::string& log, const std::string& source,
                     const codegen::TemplateSet& templates) {
  const auto error = first_error(log);
  if (!error) return log;
  const Place place = place_of(error->line, source, templates);
  const std::string name = missing_primitive(error->what);
  if (name.empty()) return fmt::format("{} in {}: \"{}\"", error->what, place.file, place.text);
  return fmt::format(
      "the CPU executor has no primitive ptx::{}, which {} calls: \"{}\"; "
      "docs/internals/executor.md tells how to add it",
      name, place.file, place.text);
}

}  // namespace attnjit::executor
