#pragma once
#include <string>

#include "cli/report/bench_page.hpp"

namespace attnjit::cli {

/// Adds the rows of a file that bench/peers.py or bench/feature_peers.py wrote. A usage error names
/// the file and what is wrong there.
void read_peers(const std::string& file, PeerTimes& peers);

}  // namespace attnjit::cli
