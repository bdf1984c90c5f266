#pragma once
#include <string>
#include <vector>

#include "codegen/templates.hpp"

namespace attnjit::codegen {

/// A generated kernel: everything that NVRTC needs, in one text.
struct Source {
  std::string entry;  ///< name of the extern "C" kernel
  std::string title;  ///< one line: what it is specialised for
  std::string stub;   ///< the generated part, before flattening
  std::string text;   ///< self-contained CUDA C++
};

/// The parts of a stub: a config, and a kernel that calls a function template with it.
struct Stub {
  struct Parameter {
    const char* type;
    const char* name;
    bool grouped = false;  ///< as kernel::Grouped<type>
  };

  const char* entry;
  std::string title;
  std::vector<std::string> headers;  ///< below templates/attnjit
  const char* config_type;
  std::string config;       ///< its designated initialisers, a line each
  std::string definitions;  ///< further constants
  std::string formulas;     ///< of expressions: headers as they are rendered
  const char* launch_bounds;
  std::vector<Parameter> parameters;
  const char* function;
  std::vector<std::string> arguments;
};

/// The stub as text, and flattened.
Source make_source(const Stub& stub, const TemplateSet& templates);

}  // namespace attnjit::codegen
