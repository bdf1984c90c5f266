#pragma once
#include <functional>
#include <optional>

#include "check/call_cut.hpp"

namespace attnjit::check {

/// The smallest call that was found to fail, and how many were tried.
struct ShrunkCall {
  dump::HostCall call;
  int tried = 0;
};

/// Makes `call`, which fails, smaller for as long as it fails: sequences, batch elements, heads,
/// rows and keys by halves, then features, one by one. `fails` runs a call, and says false too of
/// one that cannot run. Tries `most` calls at most.
ShrunkCall shrink_call(dump::HostCall call, const std::function<bool(dump::HostCall&)>& fails,
                       int most, unsigned jobs);

}  // namespace attnjit::check
