#pragma once
#include <cstddef>
#include <functional>

namespace attnjit::base {

/// Calls body(0) ... body(count - 1) on up to `jobs` threads (at least one), each index once, in no
/// fixed order. If a body throws, no further index is begun, and the first exception is rethrown
/// when all threads have stopped.
void parallel_for(std::size_t count, unsigned jobs, const std::function<void(std::size_t)>& body);

}  // namespace attnjit::base
