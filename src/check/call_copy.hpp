#pragma once
#include <map>
#include <string>

#include "dump/host_call.hpp"

namespace attnjit::check {

/// The parts of a call in host memory, by name.
using Views = std::map<std::string, Tensor>;
Views views_of(const dump::Call& call);

/// A call in memory of its own: `changed`, whose inputs have the elements of `views`.
dump::HostCall copy_call(const dump::Call& changed, const Views& views);

/// Computes out and lse of a backward's call anew, on `jobs` threads; of a forward does nothing.
void write_forward(const dump::HostCall& call, unsigned jobs);

}  // namespace attnjit::check
