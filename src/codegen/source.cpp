#include "codegen/source.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace attnjit::codegen {

Source make_source(const Stub& stub, const TemplateSet& templates) {
  std::string includes;
  for (const std::string& header : stub.headers) {
    includes += fmt::format("#include \"attnjit/{}\"\n", header);
  }
  std::vector<std::string> parameters;
  for (const auto& [type, name, grouped] : stub.parameters) {
    const std::string full = grouped ? fmt::format("Grouped<{}>", type) : type;
    parameters.push_back(fmt::format("\n    const __grid_constant__ {} {}", full, name));
  }
  Source source{.entry = stub.entry, .title = stub.title, .stub = {}, .text = {}};
  source.stub = fmt::format(
      "// {}\n{}{}\nusing namespace attnjit::kernel;\n\n"
      "inline constexpr {} kConfig{{\n{}}};\n{}\n"
      "extern \"C\" __global__ void __launch_bounds__({})\n"
      "{}({}) {{\n  {}<kConfig>({});\n}}\n",
      stub.title, includes, stub.formulas, stub.config_type, stub.config, stub.definitions,
      stub.launch_bounds, stub.entry, fmt::join(parameters, ","), stub.function,
      fmt::join(stub.arguments, ",\n    "));
  source.text = flatten(source.stub, templates);
  return source;
}

}  // namespace attnjit::codegen
