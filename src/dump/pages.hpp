#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "dump/call.hpp"
#include "dump/elements.hpp"

namespace attnjit::dump {

/// The pages of a pool that a call reads, in a smaller pool of their own.
struct Pages {
  std::int64_t of = 0;              ///< pages of the whole pool
  std::vector<std::int32_t> kept;   ///< by number in the whole pool, rising
  std::vector<std::int32_t> table;  ///< the block table for the smaller pool, [elements, max_pages]
};

/// The pages of a call that has some. Entries that it does not read, and those that name no page of
/// the pool, stay as they are: these name none of the smaller pool either. Keeps a page where none
/// is read.
Pages used_pages(const ForwardArgs& args, const Fetch& fetch);

/// Whether part `name` of a call with a block table is a pool of pages.
bool is_pool(const ForwardArgs& args, std::string_view name);

/// Page `number` of a pool.
Tensor page_of(Tensor pool, std::int64_t number);

}  // namespace attnjit::dump
