#include "explain/explanation.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "base/fields_json.hpp"

namespace attnjit::explain {
namespace {

// "1.5 GB", "12 MB", "3.2 kB".
std::string size(double bytes) {
  if (bytes >= 1e9) return fmt::format("{:.3g} GB", bytes / 1e9);
  if (bytes >= 1e6) return fmt::format("{:.3g} MB", bytes / 1e6);
  return fmt::format("{:.3g} kB", bytes / 1e3);
}

// "1.23 ms", "45 us".
std::string time(double ms) {
  return ms >= 0.1 ? fmt::format("{:.3g} ms", ms) : fmt::format("{:.3g} us", 1e3 * ms);
}

std::string row(const NearRow& near) {
  return fmt::format("{} ({}, {})", near.name, time(near.ms), near.date);
}

std::string traffic(const Counts& counts) {
  std::vector<std::string> parts;
  for (const Traffic& each : counts.traffic) {
    parts.push_back(fmt::format("{} {}", each.name, size(each.bytes)));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string resources(const Busy& busy) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < busy.size(); ++i) {
    if (busy[i] > 0) {
      parts.push_back(fmt::format("{} {}", name(static_cast<Resource>(i)), time(1e3 * busy[i])));
    }
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

// "0.1 ms", "-0.1 ms".
std::string signed_time(double ms) { return (ms < 0 ? "-" : "") + time(std::abs(ms)); }

std::string gain(const Gain& g) {
  std::string text = fmt::format("{}: {} by counts", g.what, signed_time(g.counted));
  if (g.by_rows) {
    text += fmt::format(", {} by rows: {} and {}", signed_time(*g.by_rows), row(*g.before),
                        row(*g.after));
  }
  if (g.once_ms > 0) text += fmt::format("; takes {} once", time(g.once_ms));
  return text;
}

void add_times(std::vector<std::string>& list, const Explanation& e) {
  std::vector<std::string> rows;
  for (const NearRow& near : e.nearest) rows.push_back(row(near));
  list.push_back(fmt::format("expected   {} on {}, by {}", time(e.expected_ms), e.device,
                             fmt::join(rows, ", ")));
  if (e.own) list.push_back(fmt::format("measured   {}", row(*e.own)));
  list.push_back(fmt::format("binds      {}: {}", name(binding(e.busy)), resources(e.busy)));
}

base::Json row_json(const NearRow& near) {
  return {{"name", near.name}, {"date", near.date}, {"ms", near.ms}};
}

base::Json gains_json(const std::vector<Gain>& gains) {
  base::Json list = base::Json::array();
  for (const Gain& g : gains) {
    list.push_back({{"what", g.what},
                    {"counted_ms", g.counted},
                    {"by_rows_ms", g.by_rows ? base::Json(*g.by_rows) : base::Json()},
                    {"before", g.before ? row_json(*g.before) : base::Json()},
                    {"after", g.after ? row_json(*g.after) : base::Json()},
                    {"once_ms", g.once_ms}});
  }
  return list;
}

}  // namespace

std::vector<std::string> assumptions(const problem::Problem& problem, const Values& values) {
  std::vector<std::string> list;
  if (problem.packed && values.cu_seqlens_q.empty()) {
    list.push_back("sequences are taken to be equally long: cu_seqlens is not read");
  }
  if (problem.has_seqlens_q || problem.has_seqlens_kv) {
    list.push_back("all rows and keys are taken to be in use: lengths are not read");
  }
  const bool drops = problem.mask.extent != problem::Extent::kAbsent || problem.blocks.exist();
  if (drops && !values.kept_tiles) {
    list.push_back("every tile is taken to keep a pair: masks and lists of blocks are not read");
  }
  if (problem.keep && !problem.blocks.exist()) {
    list.push_back("every tile is taken to keep a pair of the keep expression");
  }
  return list;
}

std::vector<std::string> lines(const Explanation& e) {
  std::vector<std::string> list{
      e.name, fmt::format("problem    {}", e.problem),
      fmt::format("kernels    {}; {}: {}", fmt::join(e.counts.kernels, ", "), e.tile, e.from)};
  if (!e.why.empty()) list.push_back(fmt::format("because    {}", e.why));
  if (e.expected_ms > 0) {
    add_times(list, e);
  } else {
    list.push_back(fmt::format("expected   unknown: there are no rates of {}", e.device));
  }
  const Counts& c = e.counts;
  list.push_back(fmt::format(
      "counts     {:.4g} pairs kept of {:.4g} in whole tiles, {:.4g} GFLOP, {:.4g} exponentials",
      c.pairs.kept, c.pairs.walked, c.tensor_flop / 1e9, c.exponentials));
  list.push_back(fmt::format("memory     {}: {}", size(c.memory_bytes()), traffic(c)));
  if (c.idle >= 0.1) {
    list.push_back(fmt::format(
        "idle       {:.0f} % of the device: too few tiles; more heads or batch elements in a call "
        "take little longer",
        100 * c.idle));
  }
  for (const Gain& g : e.costs) list.push_back("costs      " + gain(g));
  for (const Gain& g : e.actions) list.push_back("try        " + gain(g));
  for (const std::string& each : e.assumed) list.push_back("assumed    " + each);
  return list;
}

base::Json to_json(const Explanation& e) {
  base::Json traffic = base::Json::object(), busy = base::Json::object();
  for (const Traffic& each : e.counts.traffic) traffic[each.name] = each.bytes;
  for (std::size_t i = 0; i < e.busy.size(); ++i) {
    busy[name(static_cast<Resource>(i))] = 1e3 * e.busy[i];
  }
  base::Json nearest = base::Json::array();
  for (const NearRow& near : e.nearest) nearest.push_back(row_json(near));
  return {{"name", e.name},
          {"problem", e.problem},
          {"device", e.device},
          {"tile", e.tile},
          {"config_from", e.from},
          {"why", e.why},
          {"kernels", e.counts.kernels},
          {"expected_ms", e.expected_ms},
          {"binds", e.expected_ms > 0 ? base::Json(name(binding(e.busy))) : base::Json()},
          {"resource_ms", std::move(busy)},
          {"kept_pairs", e.counts.pairs.kept},
          {"bytes", std::move(traffic)},
          {"profile", base::to_json_value(e.profile)},
          {"nearest", std::move(nearest)},
          {"measured", e.own ? row_json(*e.own) : base::Json()},
          {"costs", gains_json(e.costs)},
          {"actions", gains_json(e.actions)},
          {"assumed", e.assumed}};
}

}  // namespace attnjit::explain
