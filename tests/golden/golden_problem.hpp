#pragma once
#include <functional>
#include <map>
#include <string>

#include "runtime/engine.hpp"
#include "unit/backward_fixtures.hpp"

namespace attnjit::test {

/// A problem whose generated sources are kept in tests/golden, so that a change shows them.
struct GoldenProblem {
  std::string name;
  std::string arch;
  Sizes sizes;
  std::function<void(ForwardArgs&)> add;  ///< mask, bias and options; may be empty
};

inline void make_causal(ForwardArgs& args) {
  args.causal = true;
  args.diagonal = Diagonal::kBottomRight;
}

/// File names under tests/golden and what they must hold.
using GoldenFiles = std::map<std::string, std::string>;

}  // namespace attnjit::test
