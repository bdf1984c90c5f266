#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "instance/problem_spec.hpp"

namespace attnjit::instance {

/// The part of validate() that is about pages and masks over the last keys.
void check_pages(const ProblemSpec& spec);

/// The block table of a paged spec, [batch, max_pages]: pages at random places of the pool, the
/// first of them shared as the spec says. `lengths` are the keys in use of each batch element;
/// entries past them name no page of the pool.
std::vector<std::int32_t> page_numbers(const ProblemSpec& spec,
                                       std::span<const std::int32_t> lengths);

}  // namespace attnjit::instance
