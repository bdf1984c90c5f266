#pragma once
#include <map>
#include <span>
#include <string>
#include <string_view>

namespace attnjit::codegen {

/// One file of templates/, by the name that `#include "..."` uses.
struct TemplateFile {
  std::string_view name;
  std::string_view text;
};

/// The templates this library was built with.
std::span<const TemplateFile> embedded_templates();

/// Template texts by name. The embedded ones by default; a caller may hand in others (read from
/// ATTNJIT_TEMPLATE_DIR, or changed by a test).
class TemplateSet {
 public:
  TemplateSet();
  explicit TemplateSet(std::map<std::string, std::string> files) : files_(std::move(files)) {}

  /// This set and `files`, which win where a name is in both.
  TemplateSet with(std::span<const TemplateFile> files) const;

  /// The text of `name`; throws Error(kInvalidEnvironment) if there is no such template.
  const std::string& text(const std::string& name) const;

 private:
  std::map<std::string, std::string> files_;
};

/// `source` with each `#include "attnjit/..."` replaced by the file's text, once each, so that it
/// needs no other file. Primitives, the headers under attnjit/ptx/, are taken from
/// `primitives_folder` instead when one is named.
std::string flatten(std::string_view source, const TemplateSet& templates,
                    std::string_view primitives_folder = "attnjit/ptx/");

}  // namespace attnjit::codegen
