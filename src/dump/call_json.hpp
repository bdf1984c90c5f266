#pragma once
#include "base/json_fwd.hpp"
#include "dump/call.hpp"

namespace attnjit::dump {

/// Tensors of a device lie this many bytes from one another, or a multiple: an address modulo this
/// is all that kernels depend on.
inline constexpr std::uintptr_t kAddressBytes = 256;

/// The members of `call`, every one of them, with addresses modulo kAddressBytes.
base::Json to_json(const Call& call);

/// The call that `json` spells. Its addresses are none: not null where the call has one, and the
/// same modulo kAddressBytes. Throws Error(kInvalidEnvironment) that names the member: one that is
/// missing or unknown, a value of another type, or sizes that no tensor has. make_problem() checks
/// the rest.
Call call_from_json(const base::Json& json, bool backward);

}  // namespace attnjit::dump
