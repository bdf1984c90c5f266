#pragma once
#include <string>

#include "unit/tuning_fixtures.hpp"

namespace attnjit::test {

/// An engine as a tune and its worker have it: with the small spaces, and a cache in `directory`,
/// or in memory where that is "0".
inline runtime::Engine tuning_engine(const std::string& directory) {
  return runtime::Engine(
      environment({{"ATTNJIT_CACHE_DIR", directory == "0" ? "0" : directory + "/cache"},
                   {"XDG_RUNTIME_DIR", directory}}),
      {}, {small_space(), small_backward_space()});
}

}  // namespace attnjit::test
