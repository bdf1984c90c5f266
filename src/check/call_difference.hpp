#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dump/reader.hpp"

namespace attnjit::check {

/// The elements of an output that differ between two runs of a call.
struct OutputDifference {
  std::string name;
  std::int64_t elements = 0;
  std::int64_t differing = 0;  ///< by their bits
  double largest = 0;          ///< of the differences; infinity where one of the two is NaN
};

/// The outputs of `call` that are other bits than `recorded`, each with what differs.
std::vector<OutputDifference> differences(const dump::HostCall& call,
                                          const dump::Results& recorded);

}  // namespace attnjit::check
