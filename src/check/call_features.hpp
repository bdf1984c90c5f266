#pragma once
#include <optional>
#include <span>
#include <string_view>

#include "dump/host_call.hpp"

namespace attnjit::check {

/// A feature that a call may have.
struct CallFeature {
  std::string_view name;
  bool (*drop)(dump::Call&);  ///< whether it was there, and is no more
};

/// The features that calls can do without.
std::span<const CallFeature> call_features();

/// `call` without `feature`, in memory of its own; a backward's out and lse are computed anew.
/// nullopt where it has none.
std::optional<dump::HostCall> drop_feature(const dump::HostCall& call, const CallFeature& feature,
                                           unsigned jobs);

/// `call` with the mask that its prepared one was made from, as far as bits tell; nullopt without
/// one.
std::optional<dump::HostCall> with_plain_mask(const dump::HostCall& call, unsigned jobs);

}  // namespace attnjit::check
