#include "cli/work/bench/peer_times.hpp"

#include "base/json.hpp"
#include "cli/input/text_file.hpp"
#include "cli/report/exit_code.hpp"

namespace attnjit::cli {

void read_peers(const std::string& file, PeerTimes& peers) {
  const base::Json report = base::try_parse_json(read_text_file("--peers", file));
  if (!report.is_object() || !report.contains("rows") || !report["rows"].is_array()) {
    usage_error("--peers: {} has no rows; expected what bench/peers.py --output wrote", file);
  }
  for (const base::Json& row : report["rows"]) {
    const bool is_row = row.contains("name") && row["name"].is_string() &&
                        row.contains("backends") && row["backends"].is_object();
    if (!is_row) continue;
    for (const auto& [backend, time] : row["backends"].items()) {
      if (!time.contains("ms") || !time["ms"].is_number()) continue;
      peers[row["name"].get<std::string>()].push_back({backend, time["ms"].get<double>()});
    }
  }
}

}  // namespace attnjit::cli
