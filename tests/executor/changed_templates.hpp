#pragma once
#include <doctest/doctest.h>

#include <string>

#include "codegen/templates.hpp"

namespace attnjit::executor_test {

/// The embedded templates with `after` in place of `before`, which must occur once in `file`.
inline codegen::TemplateSet changed_templates(const std::string& file, const std::string& before,
                                              const std::string& after) {
  std::string text = codegen::TemplateSet().text(file);
  const std::size_t place = text.find(before);
  REQUIRE_MESSAGE(place != std::string::npos, file << " lacks " << before);
  REQUIRE_MESSAGE(text.find(before, place + 1) == std::string::npos, before << " is not unique");
  text.replace(place, before.size(), after);
  const codegen::TemplateFile changed[] = {{file, text}};
  return codegen::TemplateSet().with(changed);
}

}  // namespace attnjit::executor_test
