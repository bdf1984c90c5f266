#pragma once
#include <optional>
#include <string>
#include <vector>

#include "check/verdict.hpp"
#include "dump/host_call.hpp"

namespace attnjit::check {

/// Whether the outputs of a call are what docs/reference/semantics.md says.
struct CallVerdict : Findings {
  struct Output {
    std::string name;
    reference::Report report;
  };
  std::vector<Output> outputs;  ///< those that the call has

  /// The largest error over its allowance.
  double worst_ratio() const;
};

/// Judges the outputs of `call` against fp64, on `jobs` threads: all of them, or of a call whose
/// reference would take long a sample.
CallVerdict judge_call(const dump::HostCall& call, unsigned jobs);

/// A dense mask in the place of a prepared one: true where its bits keep a key. `memory` holds it.
/// Of a call without one, the same args.
ForwardArgs with_dense_mask(const ForwardArgs& args, std::vector<std::uint8_t>& memory);

}  // namespace attnjit::check
