#pragma once
#include <map>
#include <string>
#include <vector>

#include "base/json_fwd.hpp"

namespace attnjit::cli {

/// Milliseconds of a problem by another library.
struct PeerTime {
  std::string backend;
  double ms = 0;
};

/// Those of each problem, by the names of rows.
using PeerTimes = std::map<std::string, std::vector<PeerTime>>;

/// A page of HTML that needs no other file: of each row of `report`, as bench --json has it, its
/// time, the shares of its roofline as bars, what binds it, and the times of peers. Names are
/// escaped.
std::string bench_page(const base::Json& report, const PeerTimes& peers);

}  // namespace attnjit::cli
