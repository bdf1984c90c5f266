#include "cli/input/manifest.hpp"

#include <algorithm>
#include <cstddef>
#include <unordered_set>
#include <utility>

#include "base/json.hpp"
#include "base/printable.hpp"
#include "cli/input/manifest_entry.hpp"
#include "cli/input/text_file.hpp"
#include "cli/report/exit_code.hpp"

namespace attnjit::cli {
namespace {

using base::Json;

constexpr int kSchema = 1;

void check_schema(const Json& object, const std::string& file) {
  if (object.at("schema") == kSchema) return;
  usage_error("{}: schema is {}; expected {}, the one that this version reads", file,
              base::show_json(object["schema"]), kSchema);
}

// The contents of a JSON document with members "schema", "archs" and "problems" holds.
Manifest read_document(const Json& root, const std::string& file) {
  for (const auto& [name, value] : root.items()) {
    if (name != "schema" && name != "archs" && name != "problems" && name != "$schema") {
      usage_error("{}: unknown member '{}'; expected schema, archs, problems", file,
                  base::excerpt(name));
    }
  }
  if (!root.contains("schema")) usage_error("{}: no schema; add \"schema\": {}", file, kSchema);
  check_schema(root, file);
  Manifest manifest;
  const Json archs = root.value("archs", Json::array());
  const auto is_string = [](const Json& value) { return value.is_string(); };
  if (!archs.is_array() || !std::ranges::all_of(archs, is_string)) {
    usage_error("{}: archs is {}; expected a list of names such as [\"sm_90a\"]", file,
                base::show_json(archs));
  }
  manifest.archs = archs.get<std::vector<std::string>>();
  const Json problems = root.value("problems", Json());
  if (!problems.is_array() || problems.empty()) {
    usage_error("{}: problems is {}; expected a list of at least one problem", file,
                base::show_json(problems));
  }
  for (std::size_t i = 0; i < problems.size(); ++i) {
    append_entry(problems[i], fmt::format("{}: problem {}", file, i + 1), manifest.cases);
  }
  return manifest;
}

// Calls visit(line, number), from 1, for each line of `text` that is not empty.
template <class Visit>
void for_each_line(std::string_view text, Visit&& visit) {
  for (int number = 1; !text.empty(); ++number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.find_first_not_of(" \t\r") != std::string_view::npos) visit(line, number);
  }
}

// Entries, one a line, as processes append them to one file.
Manifest read_lines(std::string_view text, const std::string& file) {
  Manifest manifest;
  std::unordered_set<std::string_view> seen;
  for_each_line(text, [&](std::string_view line, int number) {
    if (!seen.insert(line).second) return;
    Json entry = base::try_parse_json(line, base::JsonComments::kAllowed);
    if (entry.is_discarded()) {
      manifest.warnings.push_back(fmt::format("{}: line {} is skipped: it is not JSON: {}", file,
                                              number, base::excerpt(line)));
      return;
    }
    if (entry.is_object() && entry.contains("schema")) {
      check_schema(entry, fmt::format("{}: line {}", file, number));
      entry.erase("schema");
    }
    append_entry(entry, fmt::format("{}: line {}", file, number), manifest.cases);
  });
  return manifest;
}

// Whether half of the lines or more are entries by themselves; in a document few are.
bool is_line_file(std::string_view text) {
  std::size_t entries = 0, others = 0;
  for_each_line(text, [&](std::string_view line, int) {
    const Json entry = base::try_parse_json(line, base::JsonComments::kAllowed);
    ++(entry.is_object() && !entry.contains("problems") ? entries : others);
  });
  return entries > 0 && entries >= others;
}

}  // namespace

Manifest parse_manifest(std::string_view text, const std::string& file) {
  constexpr const char* kExpected =
      "expected an object with schema and problems, or a problem a line";
  if (text.find_first_not_of(" \t\r\n") == text.npos) usage_error("{}: empty; {}", file, kExpected);
  if (is_line_file(text)) return read_lines(text, file);
  Json root;
  try {
    root = base::parse_json(text, base::JsonComments::kAllowed);
  } catch (const Error& error) {
    usage_error("{}: {}; expected JSON (comments are allowed)", file, error.what());
  }
  if (!root.is_object()) usage_error("{}: {}", file, kExpected);
  return read_document(root, file);
}

Manifest load_manifest(const std::filesystem::path& file) {
  return parse_manifest(read_text_file("--manifest", file), file.string());
}

}  // namespace attnjit::cli
