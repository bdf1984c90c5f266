#include "compiler/facts.hpp"

#include <fmt/format.h>

#include "attnjit/error.hpp"
#include "base/fields_json.hpp"

namespace attnjit::compiler {
namespace {

// ptxas numbers its remarks on wgmma pipelines C7510 to C7520.
constexpr std::string_view kFirstCode = "C7510", kLastCode = "C7520";

}  // namespace

std::optional<std::string> Facts::serialization() const {
  for (const std::string_view line : warnings) {
    const std::size_t bracket = line.find("(C");
    if (!line.starts_with("ptxas") || bracket == std::string_view::npos) continue;
    const std::string_view code = line.substr(bracket + 1, kFirstCode.size());
    if (code >= kFirstCode && code <= kLastCode) return std::string(code);
  }
  return std::nullopt;
}

std::string to_json(const Facts& facts) {
  const base::Json json = {
      {"registers", facts.registers},
      {"stack_bytes", facts.stack_bytes},
      {"spill_store_bytes", facts.spill_store_bytes},
      {"spill_load_bytes", facts.spill_load_bytes},
      {"static_shared_bytes", facts.static_shared_bytes},
      {"nvrtc_version", facts.nvrtc_version},
      {"warnings", facts.warnings},
  };
  // A log may echo bytes of the source that are no UTF-8; they must not make this throw.
  return base::dump_json(json);
}

Facts facts_from_json(std::string_view text) {
  try {
    const auto json = base::try_parse_json(text);
    Facts facts;
    const auto whole = [&json](const char* name) {
      return base::from_json_value<int>(json.at(name), name);
    };
    facts.registers = whole("registers");
    facts.stack_bytes = whole("stack_bytes");
    facts.spill_store_bytes = whole("spill_store_bytes");
    facts.spill_load_bytes = whole("spill_load_bytes");
    facts.static_shared_bytes = whole("static_shared_bytes");
    json.at("nvrtc_version").get_to(facts.nvrtc_version);
    json.at("warnings").get_to(facts.warnings);
    return facts;
  } catch (const std::exception& error) {
    throw Error(ErrorKind::kInternal,
                fmt::format("these are not the facts of a kernel: {}", error.what()));
  }
}

}  // namespace attnjit::compiler
