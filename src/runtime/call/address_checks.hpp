#pragma once
#include "attnjit/backward.hpp"
#include "attnjit/merge_lse.hpp"
#include "attnjit/prepared_mask.hpp"
#include "cuda/driver.hpp"

namespace attnjit::runtime {

/// Throws Error(kInvalidProblem) that names an address which is no device memory of the current
/// context. Asks the driver about each.
void check_addresses(const cuda::Driver& driver, const ForwardArgs& args);
void check_addresses(const cuda::Driver& driver, const BackwardArgs& args);
void check_addresses(const cuda::Driver& driver, const MergeLseArgs& args);
void check_addresses(const cuda::Driver& driver, const PrepareMaskArgs& args);

}  // namespace attnjit::runtime
