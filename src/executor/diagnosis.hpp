#pragma once
#include <string>

#include "codegen/templates.hpp"

namespace attnjit::executor {

/// The first error in a host compiler's `log` of `source`, which was flattened from `templates`,
/// with the template and the line that it is in; names a primitive that the executor lacks. The log
/// itself where it holds no error of g++ or clang++ in English.
std::string diagnose(const std::string& log, const std::string& source,
                     const codegen::TemplateSet& templates);

}  // namespace attnjit::executor
