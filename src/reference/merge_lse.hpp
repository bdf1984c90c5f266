#pragma once
#include <vector>

#include "attnjit/merge_lse.hpp"

namespace attnjit::reference {

/// The merge of partial results in fp64, rows of (batch, head, row) one after the other.
struct MergedRows {
  std::vector<double> out;  ///< [row][column]
  std::vector<double> lse;  ///< [row]
};

/// `args` lie in host memory; its outputs are not touched.
MergedRows merge_lse(const MergeLseArgs& args);

}  // namespace attnjit::reference
