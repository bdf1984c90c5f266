#include "executor/diagnosis.hpp"

#include <fmt/format.h>

#include <regex>
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

}  // namespace

std::string diagnose(const std::string& log, const std::string& source,
                     const codegen::TemplateSet& templates) {
  static const std::regex kError(R"(:(\d+):\d+: (?:fatal )?error: ([^\n]*))");
  static const std::regex kMissing(
      R"('(\w+)' is not a member of '[\w:]*ptx'|no member named '(\w+)' in namespace '[\w:]*ptx')");
  std::smatch error;
  if (!std::regex_search(log, error, kError)) return log;
  const Place place = place_of(std::stoi(error[1]), source, templates);
  const std::string what = error[2];
  std::smatch missing;
  if (!std::regex_search(what, missing, kMissing)) {
    return fmt::format("{} in {}: \"{}\"", what, place.file, place.text);
  }
  const std::string name = missing[1].matched ? missing[1] : missing[2];
  return fmt::format(
      "the CPU executor has no primitive ptx::{}, which {} calls: \"{}\"; "
      "docs/internals/executor.md tells how to add it",
      name, place.file, place.text);
}

}  // namespace attnjit::executor
