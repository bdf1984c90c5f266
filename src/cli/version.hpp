#pragma once

namespace attnjit::cli {

/// The checkout that this program was built from, as git describes it: "v0.1.0-3-g0123abc", or
/// "0123abc-dirty" before the first tag. Empty for sources outside of a checkout.
const char* checkout();

}  // namespace attnjit::cli
