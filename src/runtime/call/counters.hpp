#pragma once
#include "attnjit/context.hpp"
#include "base/fields.hpp"
#include "runtime/load/engine.hpp"

namespace attnjit {

constexpr auto fields(const Counters*) {
  using C = Counters;
  return base::fields_of<C>(
      base::Field{"plans", &C::plans}, base::Field{"compiles", &C::compiles},
      base::Field{"disk_hits", &C::disk_hits}, base::Field{"corrupt", &C::corrupt},
      base::Field{"write_failures", &C::write_failures}, base::Field{"tunes", &C::tunes},
      base::Field{"timing_launches", &C::timing_launches},
      base::Field{"record_hits", &C::record_hits}, base::Field{"memory_hits", &C::memory_hits},
      base::Field{"bundle_hits", &C::bundle_hits}, base::Field{"lock_timeouts", &C::lock_timeouts});
}

namespace runtime {

/// The part of the counters that an engine keeps: those of kernels. The rest is zero.
inline Counters counters(const Engine& engine) {
  const cache::Counters cache = engine.cache().counters();
  Counters result;
  result.compiles = cache.builds;
  result.memory_hits = cache.memory_hits;
  result.bundle_hits = cache.bundle_hits;
  result.disk_hits = cache.disk_hits;
  result.corrupt = cache.corrupt;
  result.write_failures = cache.write_failures;
  result.lock_timeouts = cache.lock_timeouts;
  return result;
}

}  // namespace runtime
}  // namespace attnjit
