#pragma once
#include <optional>
#include <string>

#include "attnjit/forward_config.h"
#include "attnjit/mask_pack_config.h"
#include "problem/family.hpp"

namespace attnjit::codegen {

/// A config as a JSON object with named values.
std::string to_json(const kernel::ForwardConfig& config);
std::string to_json(const kernel::MaskPackConfig& config);

/// Sets the members of `config` that `json`, an object, names. Throws Error(kInvalidEnvironment)
/// on malformed text, an unknown member or a value of the wrong type.
void update_from_json(kernel::ForwardConfig& config, const std::string& json);

/// Which field of `config`, its tile apart, does not belong to `family`, as a sentence, or nullopt.
std::optional<std::string> why_foreign(const kernel::ForwardConfig& config,
                                       const problem::Family& family);

}  // namespace attnjit::codegen
