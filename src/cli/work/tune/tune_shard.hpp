#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "cli/input/cases.hpp"

namespace attnjit::cli {

/// The share of a manifest that one of several machines tunes.
struct Shard {
  std::size_t index = 0;  ///< from 0 to count - 1
  std::size_t count = 1;
};

/// Reads "I/N", I from 0 to N - 1; empty: all of it. Throws a usage error.
Shard read_shard(const std::string& flag);

/// The one of `count` that gets each job: the dearest first, each to the one with the least to do.
/// Machines that know the same costs come to the same answer.
std::vector<std::size_t> deal(const std::vector<double>& costs, std::size_t count);

/// The cases of `shard`, in their order. Those that share a plan stay together, since tuning the
/// first tunes all of them: the records of all shards are those that one machine keeps.
std::vector<Case> share_of(const std::vector<Case>& cases, const Shard& shard);

}  // namespace attnjit::cli
