#pragma once
#include <string>

#include "codegen/templates.hpp"

namespace attnjit::executor {

/// What a host compiler's `log` says of `source`, which was flattened from `templates`: the first
/// error, the template and the line that it is in; a primitive that the executor lacks is named.
/// The log itself where it holds no error of g++ or clang++ in English.
std::string diagnose(const std::string& log, const std::string& source,
                     const codegen::TemplateSet& templates);

}  // namespace attnjit::executor
