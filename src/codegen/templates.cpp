#include "codegen/templates.hpp"

#include <fmt/format.h>

#include <set>

#include "attnjit/error.hpp"

namespace attnjit::codegen {
namespace {

constexpr std::string_view kPrimitives = "attnjit/ptx/";

// The name in `#include "name"`, or empty.
std::string_view included_name(std::string_view line) {
  constexpr std::string_view kDirective = "#include \"";
  if (!line.starts_with(kDirective)) return {};
  line.remove_prefix(kDirective.size());
  return line.substr(0, line.find('"'));
}

class Flattener {
 public:
  Flattener(const TemplateSet& templates, std::string_view primitives_folder)
      : templates_(templates), primitives_folder_(primitives_folder) {}

  void append(std::string_view source) {
    while (!source.empty()) {
      const std::size_t end = source.find('\n');
      const std::string_view line = source.substr(0, end);
      append_line(line);
      source.remove_prefix(end == std::string_view::npos ? source.size() : end + 1);
    }
  }
  std::string take() { return std::move(text_); }

 private:
  void append_line(std::string_view line) {
    if (line == "#pragma once") return;
    const std::string_view name = included_name(line);
    if (name.empty()) {
      text_.append(line).push_back('\n');
      return;
    }
    std::string file(name);
    if (name.starts_with(kPrimitives)) {
      file = std::string(primitives_folder_) + std::string(name.substr(kPrimitives.size()));
    }
    if (!included_.insert(file).second) return;
    text_ += fmt::format("\n// ---- {}\n", file);
    append(templates_.text(file));
  }

  const TemplateSet& templates_;
  std::string_view primitives_folder_;
  std::set<std::string> included_;
  std::string text_;
};

}  // namespace

TemplateSet::TemplateSet() {
  for (const TemplateFile& file : embedded_templates()) {
    files_.emplace(file.name, file.text);
  }
}

TemplateSet TemplateSet::with(std::span<const TemplateFile> files) const {
  TemplateSet result = *this;
  for (const TemplateFile& file : files) {
    result.files_.insert_or_assign(std::string(file.name), std::string(file.text));
  }
  return result;
}

const std::string& TemplateSet::text(const std::string& name) const {
  const auto found = files_.find(name);
  if (found == files_.end()) {
    throw Error(ErrorKind::kInvalidEnvironment,
                fmt::format("template {} is missing; unset ATTNJIT_TEMPLATE_DIR or complete the "
                            "directory it names",
                            name));
  }
  return found->second;
}

std::string flatten(std::string_view source, const TemplateSet& templates,
                    std::string_view primitives_folder) {
  Flattener flattener(templates, primitives_folder);
  flattener.append(source);
  return flattener.take();
}

}  // namespace attnjit::codegen
