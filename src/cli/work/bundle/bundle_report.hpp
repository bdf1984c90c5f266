#pragma once
#include <string>
#include <vector>

#include "base/json_fwd.hpp"
#include "cache/bundle_path.hpp"

namespace attnjit::cli {

/// "/opt/models.atkb: 12 kernels and 3 tuning records, 480.0 KiB".
std::string bundle_text(const cache::Bundle& bundle);

/// The bundles in use, and those that are refused with the reason, as a list.
base::Json bundles_json(const cache::BundlePath& bundles);

}  // namespace attnjit::cli
