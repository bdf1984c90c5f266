#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace attnjit::compiler {

/// Facts about one compiled kernel, taken from the compiler's log: the same wherever it is
/// compiled.
struct Facts {
  int registers = 0;  ///< per thread
  int stack_bytes = 0;
  int spill_store_bytes = 0;
  int spill_load_bytes = 0;
  int static_shared_bytes = 0;
  std::string nvrtc_version;  ///< "13.0.88", or "12.8" from releases that do not stamp a cubin
  std::vector<std::string> warnings;  ///< lines of the log that somebody should read

  /// The code of the first line by which ptxas says that it serialised wgmma or injected a wait or
  /// a fence, "C7510" to "C7520": correct, but far slower than what the source says.
  std::optional<std::string> serialization() const;
  bool serialized() const { return serialization().has_value(); }

  bool operator==(const Facts&) const = default;
};

/// One line of JSON.
std::string to_json(const Facts& facts);

/// The inverse. Throws Error(kInternal) when the text is not JSON, lacks a field or has one of
/// another type; unknown fields are ignored.
Facts facts_from_json(std::string_view text);

}  // namespace attnjit::compiler
